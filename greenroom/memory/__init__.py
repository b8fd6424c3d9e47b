"""The memory of the process: collections of garbage, and what is given back to the system."""
