-- Comparisons that somebody recorded, with the pull request they belong to. What they show is
-- computed from the runs each time. The id follows from the runs and the pull request, so that
-- recording one again changes nothing. Runs may be deleted: their ids stay, to say what is missing.
CREATE TABLE comparisons (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    pr         TEXT,                         -- URL of the pull request
    created_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX comparisons_by_age ON comparisons (created_ms);
CREATE INDEX comparisons_by_pr ON comparisons (pr) WHERE pr IS NOT NULL;

CREATE TABLE comparison_runs (
    comparison TEXT NOT NULL REFERENCES comparisons (id) ON DELETE CASCADE,
    position   INTEGER NOT NULL,             -- 0 is the baseline
    run        TEXT NOT NULL,
    PRIMARY KEY (comparison, position)
) STRICT, WITHOUT ROWID;
