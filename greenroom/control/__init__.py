"""What operators do to a data directory, beside a running server or without one."""
