-- What was found about each device: does it leak, how fast, since when, and which code is it.
CREATE TABLE leak_reports (
    run            TEXT NOT NULL,
    device         INTEGER NOT NULL,
    version        INTEGER NOT NULL,         -- of the method; rows of another one are found again
    verdict        TEXT NOT NULL CHECK (verdict IN ('leak', 'clean', 'cannot_tell')),
    reason         TEXT NOT NULL,            -- one sentence
    caveats        TEXT NOT NULL,            -- JSON array: what limits the verdict, a sentence each
    bytes_per_step REAL NOT NULL,
    PRIMARY KEY (run, device),
    FOREIGN KEY (run, device) REFERENCES devices (run, device) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- What accumulates, most bytes a step first.
CREATE TABLE leak_groups (
    run            TEXT NOT NULL,
    device         INTEGER NOT NULL,
    position       INTEGER NOT NULL,
    site           TEXT NOT NULL,            -- call shape: equal in other traces of the program
    stack          INTEGER,                  -- its band in the picture; NULL without a stack
    pattern        TEXT NOT NULL
                   CHECK (pattern IN ('every_step', 'every_nth', 'within_step', 'enlarged')),
    every          INTEGER,                  -- with 'every_nth', every how many steps
    scope          TEXT,                     -- with 'within_step', the scopes that are the parts
    function       TEXT,                     -- what explains it best; NULL without a stack
    file           TEXT,
    line           INTEGER,
    inferred       INTEGER NOT NULL CHECK (inferred IN (0, 1)), -- from allocations beside it
    alloc_function TEXT,                     -- where it was allocated
    alloc_file     TEXT,
    alloc_line     INTEGER,
    forward        TEXT,                     -- JSON of api::leaks::ForwardOp, inferred
    count_per_step REAL NOT NULL,
    bytes_per_step REAL NOT NULL,
    slope_error    REAL NOT NULL,            -- half of the 95 % interval, bytes per step
    confidence     REAL NOT NULL,            -- from 0 to 1
    first_step     INTEGER NOT NULL,         -- position among the steps
    last_step      INTEGER NOT NULL,
    live_count     INTEGER NOT NULL,
    live_bytes     INTEGER NOT NULL,
    evidence       TEXT NOT NULL,            -- JSON array: block indexes, oldest first
    PRIMARY KEY (run, device, position),
    FOREIGN KEY (run, device) REFERENCES leak_reports (run, device) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
