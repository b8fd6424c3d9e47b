"""Rooms that run a studio's behaviour."""
