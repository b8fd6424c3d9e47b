"""The actors of a server, with their rules.

Each kind of actor has a package of its own, such as `player` or `room`. `kernel` runs them.
`flows` has the use cases that take several actors, and `services` what runs in the background.
`world` holds all actors, and says how flows and services reach them.
"""
