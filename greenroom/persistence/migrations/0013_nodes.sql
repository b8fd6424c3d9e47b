-- Several servers (nodes) on one database. The world is cut into 1,024 shards; each has one owner,
-- under an epoch that is new whenever the owner changes.

-- Neither ever gives a number twice: a restore leaves them, and they may be there already.
CREATE SEQUENCE IF NOT EXISTS node_ids AS integer;  -- half of the key of a node's lock
CREATE SEQUENCE IF NOT EXISTS epochs AS bigint;

-- Who talks to whom: the name of this installation, and the key that its nodes seal messages with.
-- Neither is in a backup: a restored copy is another installation.
CREATE TABLE cluster (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    installation_id text NOT NULL,
    key bytea NOT NULL
);

-- One row a start. `sequence` counts committed transactions: it tells whether a commit without an
-- answer happened. Whoever has ended never writes again.
CREATE TABLE nodes (
    node_id bigint PRIMARY KEY,
    name text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    protocol integer NOT NULL,
    is_alone boolean NOT NULL,
    addresses json NOT NULL,
    behaviours text NOT NULL,
    state text NOT NULL,
    load double precision NOT NULL DEFAULT 0,
    is_on_bus boolean NOT NULL DEFAULT false,
    writer_pid integer NOT NULL,
    sequence bigint NOT NULL DEFAULT 0,
    lease interval NOT NULL,
    lease_until timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz
) WITH (fillfactor = 50);  -- a row is written with every commit, in place

-- `sequence` and the holder's columns were of the one shard that there was.
ALTER TABLE shards ADD COLUMN node_id bigint;

INSERT INTO shards
SELECT which, 0, 0, '', 0, 'epoch' FROM generate_series(1, 1023) AS which;

SELECT setval('epochs', greatest(e.last_value, s.highest), e.is_called OR s.highest > 0)
FROM epochs AS e, (SELECT max(epoch) AS highest FROM shards) AS s;

-- The fence, called once in every transaction of the committer: an ended node gets GR001. It also
-- renews the lease.
CREATE FUNCTION advance_node(ours bigint, following bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE nodes SET sequence = following, lease_until = clock_timestamp() + lease
    WHERE node_id = ours AND sequence = following - 1 AND ended_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % may not write any more', ours USING ERRCODE = 'GR001';
    END IF;
END
$$;

-- The same for writes beside the committer's. It holds up nobody but whoever wants to end the node.
CREATE FUNCTION hold_node(ours bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM nodes WHERE node_id = ours AND ended_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % may not write any more', ours USING ERRCODE = 'GR001';
    END IF;
END
$$;

-- Ends the sessions of a node. One that stopped in the middle of sending holds its row, and no time
-- limit of Postgres ends it.
CREATE FUNCTION end_sessions(whose bigint) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'greenroom node ' || whose AND datname = current_database()
        AND usename = current_user AND pid <> pg_backend_pid()
$$;

-- Takes shards from a node that has ended, whose lease has run out, or that is proven to be dead.
-- Returns what was taken: nothing if the node lives, or others were quicker.
CREATE FUNCTION take_over(dead bigint, me bigint, which integer[], proven boolean)
RETURNS TABLE (taken integer, under bigint) LANGUAGE plpgsql AS $$
DECLARE
    following bigint;
BEGIN
    PERFORM hold_node(me);
    PERFORM FROM nodes WHERE node_id = dead
        AND (proven OR ended_at IS NOT NULL OR lease_until < clock_timestamp());
    IF NOT FOUND OR dead = me THEN
        RETURN;
    END IF;
    PERFORM end_sessions(dead);
    PERFORM FROM nodes WHERE node_id = dead
        AND (proven OR ended_at IS NOT NULL OR lease_until < clock_timestamp()) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE nodes SET ended_at = clock_timestamp() WHERE node_id = dead AND ended_at IS NULL;
    following := nextval('epochs');
    RETURN QUERY UPDATE shards AS s SET node_id = me, epoch = following
    WHERE s.node_id = dead AND s.shard = ANY (which) RETURNING s.shard, s.epoch;
END
$$;

-- Gives a shard to another node, in a transaction of the committer, behind the fence.
CREATE FUNCTION hand_over(which integer, following bigint, ours bigint, theirs bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE shards SET node_id = theirs, epoch = following
    WHERE shard = which AND node_id = ours AND epoch < following;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'shard % is not of node %', which, ours USING ERRCODE = '23000';
    END IF;
END
$$;

-- The shard of a game or of an owner: the first ten bits of a hash, as the server calculates it.
CREATE FUNCTION home_shard(number bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT (get_byte(hash, 0) << 2) | (get_byte(hash, 1) >> 6)
    FROM sha256(int8send(number)) AS hash
$$;

-- Where a game's players, rooms and lobbies live, its home first. All games of an owner whose plan
-- has limits share a shard, so that what they use is counted in one place.
ALTER TABLE games ADD COLUMN shards integer[] NOT NULL DEFAULT '{0}';

UPDATE games AS g
SET shards = ARRAY[home_shard(CASE o.plan WHEN 'unlimited' THEN g.game_id ELSE o.owner_id END)]
FROM owners AS o WHERE o.owner_id = g.owner_id;

-- The game that the first entry or the snapshot of a room or lobby names: MessagePack, in which the
-- key `game_id` stands before anything that players have written.
CREATE FUNCTION game_named_in(payload bytea) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    place integer := position('\xa767616d655f6964'::bytea IN payload) + 7;
    lead integer;
    result bigint := 0;
BEGIN
    IF place = 7 OR length(payload) < place + 9 THEN
        RETURN NULL;
    END IF;
    lead := get_byte(payload, place);
    IF lead < 128 THEN
        RETURN lead;
    END IF;
    IF lead NOT BETWEEN 204 AND 207 OR (lead = 207 AND get_byte(payload, place + 1) > 127) THEN
        RETURN NULL;
    END IF;
    FOR digit IN 1..(1 << (lead - 204)) LOOP
        result := result * 256 + get_byte(payload, place + digit);
    END LOOP;
    RETURN result;
END
$$;

-- Whatever names no game that exists goes to shard 0: nothing is lost from sight.
UPDATE snapshots AS s SET shard = coalesce(
    (SELECT g.shards[1] FROM games AS g WHERE g.game_id = game_named_in(s.payload)), 0
);

-- Each room and lobby has a row, version 0 before its first snapshot: it tells what a shard holds.
INSERT INTO snapshots (kind, key, shard, epoch, version, kept_from, format, payload, updated_at)
SELECT DISTINCT ON (j.kind, j.key) j.kind, j.key, coalesce(
        (SELECT g.shards[1] FROM games AS g WHERE g.game_id = game_named_in(j.payload)), 0
    ), j.epoch, 0, 1, 0, '', j.recorded_at
FROM journal AS j
WHERE NOT EXISTS (SELECT FROM snapshots AS s WHERE s.kind = j.kind AND s.key = j.key)
ORDER BY j.kind, j.key, j.sequence;

CREATE INDEX snapshots_shard ON snapshots (shard);

DROP FUNCTION game_named_in(bytea);
DROP FUNCTION home_shard(bigint);
