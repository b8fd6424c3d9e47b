"""Nodes: their rows in the database, and their right to write.

`session.py` holds the right of this server. `records.py` has the rows of all nodes and the owners
of shards. `identity.py` says how a node is described to others.
"""
