-- Views that somebody saved for the team: a name for an address of this dashboard.
CREATE TABLE views (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE COLLATE NOCASE,
    path       TEXT NOT NULL,              -- with its query; begins with one slash
    created_ms INTEGER NOT NULL,
    created_by TEXT NOT NULL               -- empty where nobody signs in
) STRICT;
