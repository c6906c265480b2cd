-- Whether the first step of a row began, where no step completed: 0 if memory ran out, or the program crashed, while it
-- was built. NULL where a step completed, and of older results, which do not say.
ALTER TABLE bench_rows ADD COLUMN began INTEGER;
