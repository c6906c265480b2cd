-- Who sent a run: the name that the audit gives them. NULL: of before, or nobody signs in, or the server made it. An
-- upload that a stopped server left keeps its name until it is a run.
ALTER TABLE runs ADD COLUMN uploaded_by TEXT;
ALTER TABLE uploads ADD COLUMN uploaded_by TEXT;
