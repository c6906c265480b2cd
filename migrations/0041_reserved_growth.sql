-- That *reserved* grows though *allocated* does not need it, and what to do, in one sentence. Absent
-- where it does not.
ALTER TABLE leak_reports ADD COLUMN reserved_growth TEXT;
