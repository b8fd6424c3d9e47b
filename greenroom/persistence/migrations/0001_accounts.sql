-- Accounts: ordinary tables, one row a thing, that an operator may query at any time.
-- Documents are json, not jsonb: they come back as they were sent.

CREATE SEQUENCE owner_ids AS bigint;
CREATE SEQUENCE game_ids AS bigint;
CREATE SEQUENCE player_ids AS bigint INCREMENT BY 1000;  -- ids are taken by the thousand

-- Who may write: the holder of the advisory lock, under an epoch that every start raises.
-- `sequence` counts committed transactions: it tells whether a commit without an answer happened.
CREATE TABLE shards (
    shard integer PRIMARY KEY,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    holder_host text NOT NULL,
    holder_pid integer NOT NULL,
    held_since timestamptz NOT NULL
);

INSERT INTO shards VALUES (0, 0, 0, '', 0, 'epoch');

-- The fence, called once in every transaction of the committer: a stale writer gets GR001.
CREATE FUNCTION advance_shard(which integer, ours bigint, following bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE shards SET sequence = following
    WHERE shard = which AND epoch = ours AND sequence = following - 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'shard % is no longer held under epoch %', which, ours
            USING ERRCODE = 'GR001';
    END IF;
END
$$;

-- The same for writes beside the committer's: the epoch cannot be raised while they are under way.
CREATE FUNCTION hold_shard(which integer, ours bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM shards WHERE shard = which AND epoch = ours FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'shard % is no longer held under epoch %', which, ours
            USING ERRCODE = 'GR001';
    END IF;
END
$$;

CREATE TABLE owners (
    owner_id bigint PRIMARY KEY,
    name text NOT NULL UNIQUE,
    plan text NOT NULL CHECK (plan IN ('unlimited', 'free', 'standard', 'pro')),
    created_at timestamptz NOT NULL
);

CREATE TABLE games (
    game_id bigint PRIMARY KEY,
    owner_id bigint NOT NULL REFERENCES owners,
    name text NOT NULL,
    api_key_hash bytea NOT NULL UNIQUE,
    private_key_hash bytea NOT NULL UNIQUE,
    tag_key bytea NOT NULL,
    data json NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE INDEX games_owner_id ON games (owner_id);

CREATE TABLE players (
    player_id bigint PRIMARY KEY,
    game_id bigint NOT NULL REFERENCES games,
    player_name text NOT NULL,
    player_tag text NOT NULL,
    token_hash bytea NOT NULL UNIQUE,
    player_data json NOT NULL,
    is_online boolean NOT NULL,
    last_login timestamptz,
    last_heartbeat timestamptz,
    last_logout timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    UNIQUE (game_id, player_tag)
) WITH (fillfactor = 80);  -- room beside a row, so that a new document moves no index entry

CREATE UNIQUE INDEX players_game_id_player_id ON players (game_id, player_id);
CREATE INDEX players_online ON players (player_id) WHERE is_online;

CREATE TABLE bans (
    ban_id text COLLATE "C" PRIMARY KEY,
    player_id bigint NOT NULL REFERENCES players,
    game_id bigint NOT NULL REFERENCES games,
    ban_duration text NOT NULL CHECK (
        ban_duration IN ('hour', 'day', 'week', 'month', 'quarter', 'year', 'forever')
    ),
    ban_reason text,
    banned_at timestamptz NOT NULL,
    banned_until timestamptz,
    ended_at timestamptz
);

CREATE INDEX bans_player_id ON bans (player_id);
CREATE INDEX bans_game_id ON bans (game_id);
CREATE UNIQUE INDEX bans_in_force ON bans (player_id) WHERE ended_at IS NULL;
