"""Friendships between players.

Each pair of players has one actor, which decides for both of them.
"""
