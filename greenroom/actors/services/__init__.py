"""Services that run in the background for as long as the server does.

Each is a child of the supervision tree. Examples are snapshots, the sweep of expired rows, and
jobs.
"""
