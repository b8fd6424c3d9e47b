"""Rules and state of rooms.

Each module has the decisions on one subject. They use no I/O, no clock and no randomness.
"""
