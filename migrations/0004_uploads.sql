-- Uploads. A server holds a lock on its data folder, so whatever is not finished when a server
-- starts belonged to one that died: with its blob complete it is ingested again, else it failed.
CREATE TABLE uploads (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    announced  INTEGER,                      -- bytes, when the client said so
    state      TEXT NOT NULL
               CHECK (state IN ('announced', 'running', 'done', 'failed', 'cancelled')),
    source     TEXT NOT NULL CHECK (source IN ('upload', 'sample', 'engine')),
    blob       TEXT REFERENCES blobs (hash), -- set once all bytes are stored
    run        TEXT,                         -- set when done
    problem    TEXT,                         -- JSON of api::Problem, set when failed
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX uploads_by_state ON uploads (state);
