-- What rooms and lobbies are restored from: the last snapshot, and the events since.

CREATE TABLE journal (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    shard integer NOT NULL,
    epoch bigint NOT NULL,
    format integer NOT NULL,
    payload bytea NOT NULL,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (kind, key, sequence)
);

CREATE INDEX journal_recorded_at ON journal (recorded_at);

CREATE TABLE snapshots (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    shard integer NOT NULL,
    epoch bigint NOT NULL,
    version bigint NOT NULL,
    kept_from bigint NOT NULL,
    format integer NOT NULL,
    payload bytea NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (kind, key)
);
