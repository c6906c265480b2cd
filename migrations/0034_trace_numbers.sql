-- The highest number that a trace was ever given. Caches keep what they found by this number, so it
-- is not given again after its run is purged.
CREATE TABLE trace_numbers (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    highest INTEGER NOT NULL
) STRICT;

INSERT INTO trace_numbers (one, highest) SELECT 1, coalesce(max(id), 0) FROM traces;
