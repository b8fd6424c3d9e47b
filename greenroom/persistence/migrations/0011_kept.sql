-- What a restore keeps: a backup's rows are added to those that are there. A restore makes these
-- tables, too, whatever the backup's schema: so they are made only where they are missing.
CREATE SEQUENCE IF NOT EXISTS audit_ids AS bigint;

-- What operators and owners of games did. No row has a secret, a name or a text of a player's.
CREATE TABLE IF NOT EXISTS audit (
    audit_id bigint NOT NULL,
    at timestamptz NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    game_id bigint,    -- no foreign keys: rows outlive what they tell of
    player_id bigint,
    details json NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('begun', 'done', 'refused', 'failed')),
    PRIMARY KEY (audit_id, at)  -- two databases that became one may have the same numbers
);

CREATE INDEX IF NOT EXISTS audit_at ON audit (at);

-- Players and games that were deleted, by id alone: a restore deletes them again.
CREATE TABLE IF NOT EXISTS deletions (
    kind text NOT NULL CHECK (kind IN ('player', 'game')),
    id bigint NOT NULL,
    deleted_at timestamptz NOT NULL,
    PRIMARY KEY (kind, id)
);

CREATE INDEX IF NOT EXISTS deletions_deleted_at ON deletions (deleted_at);
