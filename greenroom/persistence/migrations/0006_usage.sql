-- What each game used of its owner's plan, as the server last wrote it, once a second.

CREATE TABLE game_usage (
    game_id bigint PRIMARY KEY REFERENCES games ON DELETE CASCADE,
    day bigint NOT NULL,  -- that the calls are of: whole days since 1970, UTC
    calls bigint NOT NULL,
    storage_bytes bigint NOT NULL
) WITH (fillfactor = 50);  -- a row is written every second, in place
