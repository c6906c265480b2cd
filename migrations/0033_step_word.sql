-- What a step of the device is called: step, token, request and so on (trace::steps::Word). Verdicts
-- from before are of another version and are found again.
ALTER TABLE leak_reports ADD COLUMN step TEXT NOT NULL DEFAULT 'step';
