"""Operators' work on a data directory, with a running server or without one."""
