-- Games in several partitions are counted at several nodes. Each writes a row of its own, and
-- leaves it when it has nothing of the game any more. The node of the game's home adds what was
-- left, and what nodes had that have ended, to its own. `stay` tells the times apart that a node
-- has been there.
DROP TABLE IF EXISTS usage_parts, plan_shares;  -- a restore with older code leaves them

CREATE TABLE usage_parts (
    game_id bigint NOT NULL REFERENCES games ON DELETE CASCADE,
    node_id bigint NOT NULL,
    stay bigint NOT NULL,
    has_left boolean NOT NULL DEFAULT false,
    day bigint NOT NULL,
    calls bigint NOT NULL,
    storage_bytes bigint NOT NULL,
    written_bytes bigint NOT NULL,
    PRIMARY KEY (game_id, node_id, stay)
) WITH (fillfactor = 50);  -- a row is written every second, in place

-- What each node may use of the plan of an owner who has limits, and games in several partitions.
CREATE TABLE plan_shares (
    owner_id bigint NOT NULL REFERENCES owners ON DELETE CASCADE,
    kind text NOT NULL,
    node_id bigint NOT NULL,
    day bigint NOT NULL,
    share bigint NOT NULL,
    PRIMARY KEY (owner_id, kind, node_id)
) WITH (fillfactor = 50);

-- Lets a node have the shares that it wants of an owner's plan, as far as others have left so much.
-- What it uses already it gets in any case. All shares of an owner are changed one after the other.
--
-- What a dead node has counted for good is in its parts, until they are adopted. Its rooms and
-- players come up again at another node, so for a while what it had for them is still not free.
CREATE OR REPLACE FUNCTION take_shares(
    whose bigint, me bigint, today bigint,
    kinds text[], used bigint[], wanted bigint[], limits bigint[]
) RETURNS TABLE (kind text, share bigint, nodes bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM owners WHERE owner_id = whose FOR NO KEY UPDATE;
    DELETE FROM plan_shares AS s WHERE s.owner_id = whose AND NOT EXISTS (
        SELECT FROM nodes AS n WHERE n.node_id = s.node_id
            AND (n.ended_at IS NULL OR n.ended_at > clock_timestamp() - interval '5 seconds')
    );
    RETURN QUERY
    WITH held AS (
        SELECT s.kind, sum(s.share) AS share
        FROM plan_shares AS s JOIN nodes AS n ON n.node_id = s.node_id
        WHERE s.owner_id = whose AND s.node_id <> me AND CASE
            WHEN s.kind IN ('calls_per_day', 'written_bytes_per_day')
                THEN s.day >= today AND n.ended_at IS NULL
            WHEN s.kind = 'storage_bytes' THEN n.ended_at IS NULL
            ELSE true
        END
        GROUP BY s.kind
    ), parts AS (
        SELECT p.day, p.calls, p.storage_bytes, p.written_bytes
        FROM usage_parts AS p JOIN games AS g ON g.game_id = p.game_id
        WHERE g.owner_id = whose AND (p.has_left OR NOT EXISTS (
            SELECT FROM nodes AS n WHERE n.node_id = p.node_id AND n.ended_at IS NULL
        ))
        UNION ALL
        SELECT u.day, u.calls, u.storage_bytes, u.written_bytes
        FROM game_usage AS u JOIN games AS g ON g.game_id = u.game_id
        WHERE g.owner_id = whose AND cardinality(g.shards) > 1
    ), adoptable AS (
        SELECT 'storage_bytes' AS kind, sum(p.storage_bytes) AS share FROM parts AS p
        UNION ALL
        SELECT 'calls_per_day', sum(p.calls) FROM parts AS p WHERE p.day >= today
        UNION ALL
        SELECT 'written_bytes_per_day', sum(p.written_bytes) FROM parts AS p WHERE p.day >= today
    )
    INSERT INTO plan_shares AS mine (owner_id, kind, node_id, day, share)
    SELECT whose, a.kind, me, today, greatest(a.used, least(
        a.wanted, a.most - coalesce(h.share, 0) - coalesce(o.share, 0)
    ))
    FROM unnest(kinds, used, wanted, limits) AS a(kind, used, wanted, most)
    LEFT JOIN held AS h ON h.kind = a.kind LEFT JOIN adoptable AS o ON o.kind = a.kind
    ON CONFLICT (owner_id, kind, node_id) DO UPDATE SET day = excluded.day, share = excluded.share
    RETURNING mine.kind, mine.share, 1 + (
        SELECT count(DISTINCT s.node_id) FROM plan_shares AS s
        WHERE s.owner_id = whose AND s.node_id <> me
    );
END
$$;
