"""Calls of the API that reach a node other than their owner.

`locator.py` finds the shards of keys and tokens, and `targets.py` the one where a call begins.
`forwarding.py` sends the call to its owner, and `answering.py` answers it there. Calls that come
again are known there by a number (`known_calls.py`), and are sent on as their bodies alone
(`like_calls.py`).
"""
