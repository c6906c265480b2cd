-- The rules for the team's own categories, as they were typed. One row at most.
CREATE TABLE own_categories (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    rules      TEXT NOT NULL,
    changed_ms INTEGER NOT NULL,
    changed_by TEXT NOT NULL               -- empty where nobody signs in
) STRICT;
