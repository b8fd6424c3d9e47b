"""Rooms that run a studio's behaviour.

`actor.py` receives the commands. `host.py` calls the behaviour's hooks, and `turn.py` commits or
undoes what a hook did.
"""
