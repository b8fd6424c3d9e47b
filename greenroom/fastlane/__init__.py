"""The UDP fast lane without its sockets, for servers and clients.

It takes bytes and times, and returns bytes and frames. docs/reference/realtime-protocol.md
defines every byte of it.
"""
