"""Rooms: their members, and the actions, updates and messages between members.

`actor.py` keeps the state and `messages.py` has its commands. The decisions are in `rules`.
Rooms that run a studio's behaviour are in `studio_room`.
"""
