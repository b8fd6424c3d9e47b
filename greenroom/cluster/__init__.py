"""Several nodes on one database.

The package decides which node owns which shard, notices nodes that fail, and moves shards.
`membership.py` is the place to start reading.
"""
