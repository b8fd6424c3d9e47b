"""Rules of rooms, and the data that they work on: no I/O, no clock, no chance."""
