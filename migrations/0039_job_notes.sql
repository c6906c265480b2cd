-- What whoever sent a job knows of it that no rank tells, as JSON of api::jobs::JobNotes: how its
-- ranks are numbered, and ranks that failed and were not sent. Older jobs have none.
ALTER TABLE jobs ADD COLUMN notes TEXT;
