"""How a realtime connection begins.

It reads TLS and the WebSocket handshake, and finds the node that serves the room.
"""
