-- When a job was deleted together with its runs: it comes back with the first of them that is
-- restored, and is removed for good when they are.
ALTER TABLE jobs ADD COLUMN deleted_ms INTEGER;

CREATE INDEX jobs_by_deletion ON jobs (deleted_ms) WHERE deleted_ms IS NOT NULL;
