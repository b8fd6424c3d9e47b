"""Doc comments of the hand-written half of each SDK, read as groups of calls and values."""
