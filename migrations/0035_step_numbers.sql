-- The numbers in the names of the first and the last step of a leak, as the program counts them.
-- Reports from before this are of an older version, and are found again.
ALTER TABLE leak_groups ADD COLUMN first_number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leak_groups ADD COLUMN last_number INTEGER NOT NULL DEFAULT 0;
