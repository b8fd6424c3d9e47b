-- The last results that rooms have written to a player's document, so that none is written twice.
ALTER TABLE players ADD COLUMN results text NOT NULL DEFAULT '';
