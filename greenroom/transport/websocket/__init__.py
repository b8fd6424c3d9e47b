"""The WebSocket protocol (RFC 6455) without I/O."""
