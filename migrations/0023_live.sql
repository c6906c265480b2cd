-- Trainings that tell their memory after each step while they run.
CREATE TABLE live (
    id            TEXT PRIMARY KEY,
    name          TEXT NOT NULL,
    job           TEXT,                    -- the key that the ranks of one training share
    rank          INTEGER,
    ranks         INTEGER,
    device        INTEGER NOT NULL,
    limit_bytes   INTEGER,                 -- what the process may use of the device
    labels        TEXT NOT NULL,           -- a JSON object
    created_ms    INTEGER NOT NULL,
    seen_ms       INTEGER NOT NULL,        -- when it was last heard of
    outcome       TEXT,                    -- done, failed or out_of_memory; null while it runs
    what          TEXT,                    -- the kind of the error that ended it
    capture       INTEGER NOT NULL DEFAULT 0, -- the number of the last snapshot asked for; 0: none
    capture_steps INTEGER NOT NULL DEFAULT 0  -- how many steps it holds
) STRICT;
CREATE INDEX live_seen ON live (seen_ms);

-- What was in memory after a step.
CREATE TABLE live_steps (
    live      TEXT NOT NULL REFERENCES live (id) ON DELETE CASCADE,
    step      INTEGER NOT NULL,
    at_ms     INTEGER NOT NULL,
    allocated INTEGER NOT NULL,
    peak      INTEGER NOT NULL,            -- the highest allocated so far
    reserved  INTEGER NOT NULL,
    retries   INTEGER NOT NULL,
    ooms      INTEGER NOT NULL,
    PRIMARY KEY (live, step)
) STRICT, WITHOUT ROWID;
