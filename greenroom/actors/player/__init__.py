"""Players: their accounts, documents, tokens, presence and bans.

`actor.py` has the actor and `rules.py` its decisions. `index.py` finds a player by token.
"""
