"""The world: every actor of this server, and what flows and services reach it by."""
