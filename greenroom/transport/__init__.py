"""Realtime ports: WebSocket control channel and UDP fast lane."""
