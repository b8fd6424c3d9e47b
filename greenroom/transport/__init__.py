"""The realtime ports: WebSocket, and the UDP fast lane.

`connection.py` serves one connection. `hub.py` knows the members of each room, and `fanout.py`
sends to them.
"""
