"""Leaderboards: numbers of documents as keys that sort, and indexes of them. Pure."""
