"""The use that games make of their owners' plans, in the database: by game, node and share."""
