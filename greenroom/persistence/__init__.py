"""Postgres: the driver, the committer, the tables, the embedded server."""
