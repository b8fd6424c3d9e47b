-- The project keys in `games.old_keys`, one row each: a game is found by an old key as by the
-- present one. The index of 0012 serves no session, for sessions plan without bitmaps.
DROP TABLE IF EXISTS old_project_keys;  -- a restore with older code leaves it, and the function

CREATE TABLE old_project_keys (
    key_hash bytea NOT NULL,
    game_id bigint NOT NULL REFERENCES games ON DELETE CASCADE,
    PRIMARY KEY (key_hash, game_id)
);

CREATE INDEX old_project_keys_game_id ON old_project_keys (game_id);

-- A trigger fills it, so that nodes whose code does not know the table do so, too.
CREATE OR REPLACE FUNCTION keep_old_project_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM old_project_keys WHERE game_id = NEW.game_id;
    INSERT INTO old_project_keys (key_hash, game_id)
    SELECT decode(kept ->> 'key_hash', 'hex'), NEW.game_id
    FROM jsonb_array_elements(NEW.old_keys) AS kept WHERE kept ->> 'kind' = 'project'
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

CREATE TRIGGER keep_old_project_keys AFTER INSERT OR UPDATE OF old_keys ON games
FOR EACH ROW EXECUTE FUNCTION keep_old_project_keys();

INSERT INTO old_project_keys (key_hash, game_id)
SELECT decode(kept ->> 'key_hash', 'hex'), g.game_id
FROM games AS g, jsonb_array_elements(g.old_keys) AS kept WHERE kept ->> 'kind' = 'project'
ON CONFLICT DO NOTHING;
