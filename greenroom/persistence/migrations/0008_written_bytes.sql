-- What calls to each game brought to be written down, on the day that its calls are of.
ALTER TABLE game_usage ADD COLUMN written_bytes bigint NOT NULL DEFAULT 0;
