-- What a team says of a run to find it again: branch, commit, config, and what else it likes.
CREATE TABLE labels (
    run   TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    key   TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;

-- Runs are listed by what they are labelled with.
CREATE INDEX labels_by_value ON labels (key, value, run);
