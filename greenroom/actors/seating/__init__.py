"""Seats and invites, which rooms and lobbies share."""
