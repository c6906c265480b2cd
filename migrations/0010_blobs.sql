-- What is in the blob store beyond the blobs of runs and uploads. Nothing is removed because the
-- database does not know it: only what is listed here is.

-- Removals that were decided, written together with the deletion that they follow from. A row goes
-- when the object has gone; one that a dead server left is carried out by the next one, unless the
-- same bytes came again meanwhile.
CREATE TABLE blob_removals (
    hash       TEXT PRIMARY KEY,
    decided_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Blobs that no run uses and that nobody deleted: kept until `tidemark doctor --adopt` takes them
-- up again.
CREATE TABLE quarantine (
    hash     TEXT PRIMARY KEY,
    name     TEXT NOT NULL,                  -- of the upload that it came with
    why      TEXT NOT NULL,                  -- a sentence
    since_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How often a server began to read it again after another one had died over it.
ALTER TABLE uploads ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE traces ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
