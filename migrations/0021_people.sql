-- People who may sign in. Rows stay when somebody leaves: what they did stays theirs.
CREATE TABLE people (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE COLLATE NOCASE,
    role       TEXT NOT NULL,              -- admin, member or reader
    created_ms INTEGER NOT NULL,
    left_ms    INTEGER                     -- when their access was ended
) STRICT;

-- What programs send for a person, and what a person types to sign in.
CREATE TABLE tokens (
    id          TEXT PRIMARY KEY,
    person      TEXT NOT NULL REFERENCES people (id),
    name        TEXT NOT NULL,
    secret_hash TEXT NOT NULL UNIQUE,      -- BLAKE3 of the secret, hexadecimal
    scopes      TEXT NOT NULL,             -- words with commas between them
    created_ms  INTEGER NOT NULL,
    expires_ms  INTEGER,
    used_ms     INTEGER
) STRICT;
CREATE INDEX tokens_of_person ON tokens (person);

-- Whose session it is, and with which of their tokens it was opened; none: the server's own token.
ALTER TABLE sessions ADD COLUMN person TEXT REFERENCES people (id);
ALTER TABLE sessions ADD COLUMN token TEXT;

-- What was done, by whom. Names, since it must be readable when the rest is gone.
CREATE TABLE audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms   INTEGER NOT NULL,
    who     TEXT NOT NULL,
    address TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL
) STRICT;
