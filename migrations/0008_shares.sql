-- Links that were handed on. They are kept when they end: whoever opens one is told so.
CREATE TABLE shares (
    id             TEXT PRIMARY KEY,         -- short; names the link and opens nothing by itself
    kind           TEXT NOT NULL CHECK (kind IN ('team', 'capability')),
    token_hash     TEXT UNIQUE,              -- BLAKE3 of the secret, hexadecimal; NULL: team link
    target         TEXT NOT NULL CHECK (target IN ('run', 'comparison')),
    query          TEXT NOT NULL,            -- view state, with the version that wrote it
    redaction      TEXT NOT NULL CHECK (redaction IN ('none', 'redacted')),
    note           TEXT NOT NULL,
    created_ms     INTEGER NOT NULL,
    created_by     TEXT NOT NULL,            -- as typed; may be empty
    expires_ms     INTEGER,                  -- NULL: never
    revoked_ms     INTEGER,
    revoked_by     TEXT,
    last_opened_ms INTEGER,
    CHECK ((kind = 'capability') = (token_hash IS NOT NULL))
) STRICT;

-- The runs that a link opens, baseline first. No foreign key: an id names content, so a run that
-- was deleted and uploaded again is the same run, and the link opens it again.
CREATE TABLE share_runs (
    share    TEXT NOT NULL REFERENCES shares (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    run      TEXT NOT NULL,
    PRIMARY KEY (share, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX share_runs_by_run ON share_runs (run);
