-- Where one line of code is named for several leaks: the function that tells a leak from the others,
-- as JSON of api::frames::FrameText. Reports from before this are of an older version, and are found
-- again.
ALTER TABLE leak_groups ADD COLUMN made_in TEXT;
