"""Lobbies, where players meet before a room: events, pure rules and an actor, journalled."""
