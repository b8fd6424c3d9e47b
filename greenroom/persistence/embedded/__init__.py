"""A Postgres that the server starts and stops itself."""
