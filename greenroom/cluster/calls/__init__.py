"""Calls of the API that reach a node other than their owner.

`locator.py` finds the shard of the call's game. `forwarding.py` sends the call to its owner, and
`answering.py` answers it there.
"""
