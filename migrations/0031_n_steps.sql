-- How many steps a device has, so that the list of runs need not count their rows each time: a run may have 131,072.
ALTER TABLE devices ADD COLUMN n_steps INTEGER NOT NULL DEFAULT 0;

UPDATE devices SET n_steps =
    (SELECT count(*) FROM steps s WHERE s.run = devices.run AND s.device = devices.device);
