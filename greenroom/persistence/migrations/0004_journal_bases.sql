-- States that history is replayed from where the journal before them has been cut.

CREATE TABLE journal_bases (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    format integer NOT NULL,
    payload bytea NOT NULL,
    taken_at timestamptz NOT NULL,
    PRIMARY KEY (kind, key, version)
);

-- The journal is cut by actor, along its primary key.
DROP INDEX journal_recorded_at;
