-- The partition of their game that a player lives in: one of `games.shards`. Without a value it is
-- the first, the game's home. So this writes no row, and older code beside us does no harm.
ALTER TABLE players ADD COLUMN IF NOT EXISTS shard integer;  -- a restore with older code leaves it
