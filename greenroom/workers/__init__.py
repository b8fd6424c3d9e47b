"""Several processes of one server: a parent that keeps the sockets, and the workers that serve."""
