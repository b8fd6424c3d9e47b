"""Overload control, which keeps the server responsive when it is asked too much.

Each module limits one resource: memory for bodies, time, connections, or calls at a time.
"""
