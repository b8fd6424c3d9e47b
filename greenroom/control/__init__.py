"""Operators' work on a data directory, with or without a running server.

It has the control socket with its client, backups, and the first game. `admin` has the
operations themselves.
"""
