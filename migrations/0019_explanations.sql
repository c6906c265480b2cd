-- A large run in words, kept because finding them again takes seconds: of the device that is explained where none is
-- named. Small runs are explained when somebody asks.
CREATE TABLE explanations (
    run     TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    device  INTEGER,                         -- NULL where there is none to explain
    version INTEGER NOT NULL,                -- of the words; rows of another one are found again
    words   BLOB NOT NULL                    -- zstd of the JSON of api::explain::Explanation, without the name
) STRICT, WITHOUT ROWID;
