-- Small facts of a trace, as rows that anyone can query with the sqlite3 shell.
CREATE TABLE devices (
    run                TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    device             INTEGER NOT NULL,     -- CUDA ordinal as the process saw it
    events             INTEGER NOT NULL,
    blocks             INTEGER NOT NULL,
    fidelity_allocs    INTEGER NOT NULL,
    fidelity_predicted INTEGER NOT NULL,
    unmatched_frees    INTEGER NOT NULL,
    step_source        TEXT NOT NULL CHECK (step_source IN ('annotations', 'inferred', 'none')),
    first_us           INTEGER,              -- NULL when the events have no times
    last_us            INTEGER,
    PRIMARY KEY (run, device)
) STRICT, WITHOUT ROWID;

CREATE TABLE series (
    run         TEXT NOT NULL,
    device      INTEGER NOT NULL,
    series      TEXT NOT NULL CHECK (series IN ('requested', 'allocated', 'active', 'reserved')),
    start_bytes INTEGER NOT NULL,
    peak_bytes  INTEGER NOT NULL,
    peak_event  INTEGER,                     -- NULL when the peak was before the first event
    end_bytes   INTEGER NOT NULL,
    PRIMARY KEY (run, device, series),
    FOREIGN KEY (run, device) REFERENCES devices (run, device) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
    run             TEXT NOT NULL,
    device          INTEGER NOT NULL,
    idx             INTEGER NOT NULL,
    name            TEXT NOT NULL,
    first_event     INTEGER NOT NULL,
    end_event       INTEGER NOT NULL,
    allocated_end   INTEGER NOT NULL,
    allocated_peak  INTEGER NOT NULL,
    reserved_end    INTEGER NOT NULL,
    requested_end   INTEGER NOT NULL,
    PRIMARY KEY (run, device, idx),
    FOREIGN KEY (run, device) REFERENCES devices (run, device) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE ooms (
    run          TEXT NOT NULL,
    device       INTEGER NOT NULL,
    event        INTEGER NOT NULL,
    wanted_bytes INTEGER NOT NULL,           -- what could not be had
    free_bytes   INTEGER NOT NULL,           -- what the driver had free
    PRIMARY KEY (run, device, event),
    FOREIGN KEY (run, device) REFERENCES devices (run, device) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
