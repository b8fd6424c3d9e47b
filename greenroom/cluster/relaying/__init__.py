"""Realtime connections that reach a node other than their room's.

Such a connection is relayed to the node that runs the room.
"""
