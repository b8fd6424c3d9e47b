"""Friendship between two players, decided in one place for both."""
