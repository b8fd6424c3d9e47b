"""All actors of this server, and how flows and services reach them.

`world.py` builds the actors' directories. `ports.py` says what the world needs from storage.
"""
