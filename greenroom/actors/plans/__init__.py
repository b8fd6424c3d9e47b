"""Plans: what an owner of games may use, and what their games use."""
