"""WebSocket (RFC 6455) without I/O."""
