-- Two ranks of a job may have recordings that are the same byte for byte, and then they are one run: a run may be
-- several ranks of a job.
CREATE TABLE job_ranks_of_equal (
    job  TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    rank INTEGER NOT NULL,
    run  TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    PRIMARY KEY (job, rank)
) STRICT, WITHOUT ROWID;
INSERT INTO job_ranks_of_equal (job, rank, run) SELECT job, rank, run FROM job_ranks;
DROP TABLE job_ranks;
ALTER TABLE job_ranks_of_equal RENAME TO job_ranks;
CREATE INDEX job_ranks_by_run ON job_ranks (run);
