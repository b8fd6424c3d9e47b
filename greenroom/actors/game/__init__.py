"""Games: their keys, the game document, settings and tags.

`actor.py` has the actor and `rules.py` its decisions. `index.py` finds a game by its project key.
"""
