"""Several nodes on one database: who owns which shard, and what happens when a node goes."""
