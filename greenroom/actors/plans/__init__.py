"""Limits on what the owner of games may use, and counts of what is used.

`plan.py` has the limits, `ledger.py` the use by each owner, and `address_counts.py` the use by
each address.
"""
