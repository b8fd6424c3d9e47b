"""Greenroom: a multiplayer game backend that a studio runs itself."""

__version__ = "0.2.0.dev0"
