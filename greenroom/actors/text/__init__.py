"""Rules for texts that people type, such as names and titles.

`moderation.py` finds offensive words, and `names.py` says which names a game allows.
"""
