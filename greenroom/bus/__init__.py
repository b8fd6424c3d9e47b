"""The bus: how the nodes of a cluster ask and tell each other. Knows no actors and no shards."""
