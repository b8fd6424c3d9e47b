"""Sign-in with game distribution platforms.

Each module asks one platform whose ticket it is. `client.py` has the requests that they share.
"""
