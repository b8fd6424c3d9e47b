"""Seats and invites, as rooms and lobbies share them."""
