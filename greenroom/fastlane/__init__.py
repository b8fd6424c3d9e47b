"""The UDP fast lane: packets, frames and links, for servers and clients alike.

Sans-I/O: bytes and times in, bytes and frames out. docs/reference/realtime-protocol.md
defines it byte for byte.
"""
