"""Actors: players, games, rooms, lobbies and friendships, and the kernel that runs them."""
