-- A player's numbers that the server alone writes, by name; clients read them beside the document.
ALTER TABLE players ADD COLUMN stats json NOT NULL DEFAULT '{}';
