"""Calls of the API that reach another node than their owner: sent on, answered, sent back."""
