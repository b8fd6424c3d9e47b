"""A Postgres that the server runs itself."""
