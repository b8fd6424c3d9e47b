"""Actors: what players, games and later rooms are, and the kernel that runs them."""
