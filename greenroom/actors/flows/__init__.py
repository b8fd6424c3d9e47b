"""Flows: what takes more than one actor, as plain async functions in the caller's task."""
