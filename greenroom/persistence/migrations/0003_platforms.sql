-- Accounts linked to a game distribution platform, and what games keep to themselves.

-- Never shown to clients; may hold the key that the server asks the platform with.
ALTER TABLE games ADD COLUMN settings json NOT NULL DEFAULT '{}';

ALTER TABLE players ADD COLUMN platform text;
ALTER TABLE players ADD COLUMN platform_id text COLLATE "C";
ALTER TABLE players ADD CHECK ((platform IS NULL) = (platform_id IS NULL));

-- One account for each of a platform's users; friends are looked for by their ids alone.
CREATE UNIQUE INDEX players_platform_id ON players (game_id, platform_id, platform)
    WHERE platform_id IS NOT NULL;

-- Tickets that somebody has signed in with, until the platform takes them no more.
CREATE TABLE platform_tickets (
    ticket_hash bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL
);

CREATE INDEX platform_tickets_expires_at ON platform_tickets (expires_at);
