-- A job is a named set of runs, one for each rank of a program that ran on many. A run belongs to one
-- job at most; it leaves the job when it is deleted for good, and is not counted while that can be
-- undone. A job that is deleted leaves its runs.
CREATE TABLE jobs (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX jobs_by_age ON jobs (created_ms);

CREATE TABLE job_ranks (
    job  TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    rank INTEGER NOT NULL,
    run  TEXT NOT NULL UNIQUE REFERENCES runs (id) ON DELETE CASCADE,
    PRIMARY KEY (job, rank)
) STRICT, WITHOUT ROWID;

-- What a rank says of itself, derived from its trace: packed JSON of trace::ranks::RankProfile.
CREATE TABLE rank_profiles (
    run     TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    profile BLOB NOT NULL
) STRICT;

-- What an upload is a rank of. The job may be gone when the upload is done: the run stays alone.
ALTER TABLE uploads ADD COLUMN job TEXT;
ALTER TABLE uploads ADD COLUMN rank INTEGER;
