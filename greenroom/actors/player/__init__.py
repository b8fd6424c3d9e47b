"""Players: accounts, documents, presence, bans."""
