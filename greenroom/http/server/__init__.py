"""The two HTTP servers: our own for HTTP/1.1, and Hypercorn with Quart for HTTP/2."""
