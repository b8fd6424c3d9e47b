"""Leaderboards: indexes of players, sorted by numbers in their documents.

The indexes live in memory and are fed by commits. This package does no I/O.
"""
