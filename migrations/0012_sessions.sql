-- Browsers that typed the access token. Rows go when a session ends, expires or is revoked.
CREATE TABLE sessions (
    id          TEXT PRIMARY KEY,
    secret_hash TEXT NOT NULL UNIQUE,   -- BLAKE3 of the cookie's value, hexadecimal
    token_hash  TEXT NOT NULL,          -- of the token it was opened with: another token ends it
    created_ms  INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL,
    address     TEXT NOT NULL,          -- from which the token was typed
    agent       TEXT NOT NULL           -- what the browser called itself
) STRICT;
