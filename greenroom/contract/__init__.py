"""The contract with clients: operations, requests, replies and errors, each declared once.

The server, the client library and the descriptions (OpenAPI, the reference, MCP) use these structs.
This package imports nothing of Greenroom but itself.
"""
