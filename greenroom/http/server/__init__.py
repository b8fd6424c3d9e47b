"""The two HTTP servers: Greenroom's own for HTTP/1.1, and Hypercorn for HTTP/2."""
