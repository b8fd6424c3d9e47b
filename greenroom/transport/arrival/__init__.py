"""How a connection begins: TLS, the request for a WebSocket, and the node that serves it."""
