-- A run's page tells what its bench row came to over all of its steps.
CREATE INDEX bench_rows_of_runs ON bench_rows (run);
