"""Rooms: who is in them, what their members ask of each other and tell each other."""
