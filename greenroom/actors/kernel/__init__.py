"""Runs actors.

It defines commands, references, turns, mailboxes and timers. `cell.py` runs one actor and says
what the kernel promises. The kernel knows no database, no HTTP and no kind of actor.
"""
