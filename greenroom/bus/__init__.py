"""The bus, by which the nodes of a cluster ask and tell each other.

`memory.py`, `unix.py` and `nats.py` each carry it another way. The bus knows no actors and no
shards.
"""
