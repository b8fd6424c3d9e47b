"""Games in several partitions: what their nodes ask each other, and copies of games."""
