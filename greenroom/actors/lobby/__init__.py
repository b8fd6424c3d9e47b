"""Lobbies, in which players meet before a room starts.

`rules.py` decides, `events.py` says what can happen, and `actor.py` keeps the state. The events
are written to a journal.
"""
