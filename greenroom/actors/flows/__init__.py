"""Use cases that need more than one actor.

A flow is a plain async function that runs in the caller's task. It may ask several actors, one
after the other. Each module has the use cases of one subject.
"""
