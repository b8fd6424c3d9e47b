-- What operators have put aside, because no room or lobby could be made of it.
CREATE TABLE quarantine (
    origin text NOT NULL CHECK (origin IN ('journal', 'snapshots', 'journal_bases')),
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    format integer NOT NULL,
    payload bytea NOT NULL,
    recorded_at timestamptz NOT NULL,
    discarded_at timestamptz NOT NULL
);

CREATE INDEX quarantine_discarded_at ON quarantine (discarded_at);
