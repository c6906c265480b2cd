-- What the database knows of itself: one row.
CREATE TABLE database (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    id        TEXT NOT NULL,                 -- by chance; the owner's mark in the blob store has it
    latest_ms INTEGER NOT NULL               -- latest time seen, so that no link lives twice
) STRICT;
