"""The endpoints, one module per area of the API."""
