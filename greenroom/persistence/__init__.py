"""Storage in Postgres.

`committer.py` writes the changes of all actors, and `loaders.py` reads rows. `driver.py` speaks to
Postgres, and `nodes/session.py` holds the server's right to write.
"""
