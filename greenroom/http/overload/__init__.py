"""Overload control: keeps the server responsive while more is asked than it can do."""
