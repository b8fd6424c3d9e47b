"""Realtime connections that reach another node than their room's."""
