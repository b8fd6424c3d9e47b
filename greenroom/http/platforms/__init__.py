"""Game distribution platforms: how each is asked whose ticket it is."""
