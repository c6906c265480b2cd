-- What a recording holds (trace::steps::recording::Kind): of one pass there is no verdict. Verdicts
-- from before are of another version and are found again.
ALTER TABLE leak_reports ADD COLUMN recording TEXT NOT NULL DEFAULT 'unknown';
