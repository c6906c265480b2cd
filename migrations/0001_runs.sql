-- Uploaded bytes, content-addressed. They are immutable; everything else can be rebuilt from them.
CREATE TABLE blobs (
    hash         TEXT PRIMARY KEY,           -- BLAKE3 of the bytes as uploaded, hexadecimal
    file_bytes   INTEGER NOT NULL,           -- bytes as uploaded
    stored_bytes INTEGER NOT NULL,           -- bytes in the blob store
    codec        TEXT NOT NULL CHECK (codec IN ('zstd', 'identity')),
    level        INTEGER NOT NULL,           -- zstd level; 0 for identity
    created_ms   INTEGER NOT NULL
) STRICT;

-- One decoded trace. It has a number of its own, apart from the run, because it is written in many
-- small transactions: until a run points at it nobody sees it, and one that no run points at is
-- the rest of an interrupted ingest and is removed at the next start.
CREATE TABLE traces (
    id             INTEGER PRIMARY KEY,
    stored_version INTEGER NOT NULL,         -- trace::stored::VERSION that wrote the chunks
    created_ms     INTEGER NOT NULL
) STRICT;

CREATE TABLE runs (
    id              TEXT PRIMARY KEY,        -- derived from the hash, so equal bytes are one run
    name            TEXT NOT NULL,
    source          TEXT NOT NULL CHECK (source IN ('upload', 'sample', 'engine')),
    created_ms      INTEGER NOT NULL,
    deleted_ms      INTEGER,                 -- set while the deletion can be undone
    blob            TEXT NOT NULL REFERENCES blobs (hash),
    trace           INTEGER NOT NULL UNIQUE REFERENCES traces (id),
    pickle_protocol INTEGER,                 -- NULL for JSON and recordings
    torch_guess     TEXT
) STRICT;
CREATE INDEX runs_by_blob ON runs (blob);
CREATE INDEX runs_by_age ON runs (created_ms);

CREATE TABLE settings (
    run      TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name     TEXT NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE quality (
    run      TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    code     TEXT NOT NULL,
    detail   TEXT NOT NULL,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;
