"""Code that the HTTP port and the realtime port share.

It has addresses, limits for each address, TLS, listening sockets and batched sending.
"""
