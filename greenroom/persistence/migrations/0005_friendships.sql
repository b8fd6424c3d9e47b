-- Who has asked whom to be friends, and who are: one row for both, so that they never differ.

CREATE TABLE friendships (
    game_id bigint NOT NULL,
    low_id bigint NOT NULL,
    high_id bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'accepted')),
    requested_by bigint NOT NULL CHECK (requested_by IN (low_id, high_id)),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (low_id, high_id),
    CHECK (low_id < high_id),
    -- both of this game; a friendship goes with either of the two
    FOREIGN KEY (game_id, low_id) REFERENCES players (game_id, player_id) ON DELETE CASCADE,
    FOREIGN KEY (game_id, high_id) REFERENCES players (game_id, player_id) ON DELETE CASCADE
);

CREATE INDEX friendships_high_id ON friendships (high_id);
