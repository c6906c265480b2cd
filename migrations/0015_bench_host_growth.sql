-- Growth of pinned host memory: a patch may move a leak there. Older rows did not fit it; 0 says no
-- growth of them, as the page did.
ALTER TABLE bench_rows ADD COLUMN host_growth_per_step REAL NOT NULL DEFAULT 0; -- bytes
-- Most pinned host memory that a row took; 0 for older rows, which did not keep it.
ALTER TABLE bench_rows ADD COLUMN host_pinned_peak INTEGER NOT NULL DEFAULT 0; -- bytes
