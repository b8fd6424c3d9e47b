"""The API described from its table: OpenAPI, the reference, and MCP."""
