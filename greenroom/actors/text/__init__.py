"""Texts that people type: names and titles, and what a game allows in them."""
