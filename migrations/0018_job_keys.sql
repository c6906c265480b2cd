-- What a job is asked for by, so that its ranks, which do not know one another, find the same one: chosen
-- by the program, compared as it is. A job that was made without one is never found by one.
ALTER TABLE jobs ADD COLUMN key TEXT;
CREATE UNIQUE INDEX jobs_by_key ON jobs (key) WHERE key IS NOT NULL;
