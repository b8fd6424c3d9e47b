-- Keys of games that have been replaced and still open them for a while: kind, hash and times.
ALTER TABLE games ADD COLUMN old_keys jsonb NOT NULL DEFAULT '[]';

-- A project key is looked up by its hash, an old one, too.
CREATE INDEX games_old_keys ON games USING gin (old_keys jsonb_path_ops);
