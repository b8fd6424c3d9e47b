"""One endpoint table, and the two servers that serve it."""
