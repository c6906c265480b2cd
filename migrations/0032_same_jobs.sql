-- A run may be a rank of several jobs: a push that has some recordings in common with an earlier one takes
-- nothing away from it.
CREATE TABLE job_ranks_of_several (
    job  TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    rank INTEGER NOT NULL,
    run  TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    PRIMARY KEY (job, rank),
    UNIQUE (job, run)
) STRICT, WITHOUT ROWID;
INSERT INTO job_ranks_of_several (job, rank, run) SELECT job, rank, run FROM job_ranks;
DROP TABLE job_ranks;
ALTER TABLE job_ranks_of_several RENAME TO job_ranks;
CREATE INDEX job_ranks_by_run ON job_ranks (run);

-- The earlier job that has every rank of this one, recording for recording: the same files were pushed again.
-- Lists leave this one out, and its address leads to the earlier one.
ALTER TABLE jobs ADD COLUMN same_as TEXT REFERENCES jobs (id) ON DELETE CASCADE;
CREATE INDEX jobs_by_same ON jobs (same_as) WHERE same_as IS NOT NULL;
