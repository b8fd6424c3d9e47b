"""Games: keys, the game document, its rules for names."""
