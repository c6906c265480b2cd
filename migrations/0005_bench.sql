-- Benches: rows of the engine that were asked for together, the queue that they wait in, and what
-- came of them. One server works the queue and holds a lock on the data folder: a row that is
-- 'running' when a server starts was claimed by one that died, and is queued again.
CREATE TABLE benches (
    id             TEXT PRIMARY KEY,
    created_ms     INTEGER NOT NULL,
    device         TEXT NOT NULL CHECK (device IN ('sim', 'cuda')),
    steps          INTEGER,                  -- NULL: each configuration's own number
    capacity       INTEGER,                  -- device memory; NULL: the configuration's own
    recorded_steps INTEGER NOT NULL
) STRICT;
CREATE INDEX benches_by_age ON benches (created_ms);

-- The columns of a result are those of `tidemark bench --json`; NULL until the row is done.
CREATE TABLE bench_rows (
    id                TEXT PRIMARY KEY,
    bench             TEXT NOT NULL REFERENCES benches (id) ON DELETE CASCADE,
    position          INTEGER NOT NULL,      -- among the rows of its bench
    place             INTEGER NOT NULL,      -- in the queue, over all benches; larger comes later
    config            TEXT NOT NULL,
    patches           TEXT NOT NULL,         -- ids joined by '+'; empty for the baseline
    planned_steps     INTEGER NOT NULL,
    state             TEXT NOT NULL
                      CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    reason            TEXT,                  -- why it failed
    claims            INTEGER NOT NULL,      -- how often a server took it up since it was queued
    queued_ms         INTEGER NOT NULL,
    started_ms        INTEGER,
    finished_ms       INTEGER,
    run               TEXT,                  -- what its recording became; may be deleted since
    status            TEXT,
    device_name       TEXT,
    base              TEXT,
    steps_run         INTEGER,
    peak_allocated    INTEGER,
    peak_reserved     INTEGER,
    allocated_end     INTEGER,
    growth_per_step   REAL,                  -- bytes
    growth_error      REAL,                  -- standard error of the slope, bytes
    oom_step          INTEGER,
    crash             TEXT,
    corrupted_tensors INTEGER,
    races             INTEGER,
    tracker_end       INTEGER,
    bwd_stash_end     INTEGER,
    host_pinned_end   INTEGER,
    d2h_bytes         INTEGER,
    h2d_bytes         INTEGER,
    step_seconds      REAL,                  -- median, in the device's own time
    -- What only a card can say; NULL of the simulated device.
    card_total        INTEGER,
    card_free_start   INTEGER,
    card_free_min     INTEGER,
    card_peak_used    INTEGER,
    verified_tensors  INTEGER,               -- checksums compared
    early_decisions   INTEGER                -- events that were waited for
) STRICT;
CREATE UNIQUE INDEX bench_rows_in_order ON bench_rows (bench, position);
CREATE INDEX bench_rows_in_queue ON bench_rows (state, place);

-- Every step of a row, recorded event by event or not.
CREATE TABLE bench_steps (
    row            TEXT NOT NULL REFERENCES bench_rows (id) ON DELETE CASCADE,
    step           INTEGER NOT NULL,
    allocated      INTEGER NOT NULL,         -- at its end
    peak_allocated INTEGER NOT NULL,         -- within it
    reserved       INTEGER NOT NULL,         -- at its end
    tracker        INTEGER NOT NULL,         -- entries
    bwd_stash      INTEGER NOT NULL,         -- tensors
    host_pinned    INTEGER NOT NULL,
    seconds        REAL NOT NULL,            -- in the device's own time
    PRIMARY KEY (row, step)
) STRICT, WITHOUT ROWID;

-- What the engine knows of the tensors of its runs, and no snapshot can say: a row for each one
-- that is alive at the end, and all of them as compressed columns.
CREATE TABLE tensors (
    run        TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position   INTEGER NOT NULL,
    event      INTEGER,                      -- its alloc; NULL when before the recording
    address    INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,             -- asked for
    name       TEXT NOT NULL,
    op         TEXT NOT NULL,                -- what made it; empty where the program did
    module     TEXT NOT NULL,
    shape      TEXT NOT NULL,                -- as in 1x512x4096; empty for a number
    dtype      TEXT,                         -- NULL for memory that is no tensor
    role       TEXT NOT NULL,
    made_step  INTEGER,                      -- NULL when before the first
    owner      TEXT NOT NULL,                -- what keeps it alive
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE tensor_columns (
    run     TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,                -- of the encoding
    bytes   BLOB NOT NULL                    -- zstd
) STRICT;
