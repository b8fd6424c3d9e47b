"""The endpoints of the API, one module for each area.

A module has the rows of its endpoints and their handlers.
"""
