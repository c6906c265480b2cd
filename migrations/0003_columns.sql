-- The trace's columns, compressed. A rowid table: rows of 64 KiB in a clustered index would make
-- every look-up walk overflow pages.
CREATE TABLE chunks (
    trace  INTEGER NOT NULL REFERENCES traces (id) ON DELETE CASCADE,
    device INTEGER NOT NULL,                 -- CUDA ordinal; -1 for what all devices share
    col    INTEGER NOT NULL,                 -- trace::stored::Column
    seq    INTEGER NOT NULL,
    bytes  BLOB NOT NULL                     -- zstd of what trace::stored encoded
) STRICT;
CREATE UNIQUE INDEX chunks_in_order ON chunks (trace, device, col, seq);

-- Derived pictures. Overviews are written with the trace and stay; the rest is a bounded cache.
CREATE TABLE tiles (
    id       INTEGER PRIMARY KEY,
    trace    INTEGER NOT NULL REFERENCES traces (id) ON DELETE CASCADE,
    device   INTEGER NOT NULL,
    kind     TEXT NOT NULL,                  -- 'series', 'mountain/stack', …, 'marks'
    level    INTEGER NOT NULL,
    idx      INTEGER NOT NULL,
    version  INTEGER NOT NULL,               -- encoding; rows of another version are ignored
    overview INTEGER NOT NULL CHECK (overview IN (0, 1)),
    bytes    BLOB NOT NULL                   -- zstd of the encoded tile
) STRICT;
CREATE UNIQUE INDEX tiles_by_place ON tiles (trace, device, kind, level, idx);
CREATE INDEX tiles_by_age ON tiles (overview, id);
