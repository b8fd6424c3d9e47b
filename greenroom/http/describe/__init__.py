"""Describes the API from its table: OpenAPI, the reference, MCP and code samples."""
