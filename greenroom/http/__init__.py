"""The HTTP API: its endpoint table, dispatch, sign-in and limits.

`table.py` defines a row of the table, and the modules in `areas` have the rows. `dispatch.py`
answers a call.
`server` has the two servers that speak HTTP.
"""
