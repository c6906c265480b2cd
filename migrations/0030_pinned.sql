-- Pinned host memory is read now. Recordings in which an earlier version left it out are read once
-- more from their files: no program writes version 0, so these count as outdated.
UPDATE traces SET stored_version = 0 WHERE id IN (
    SELECT runs.trace FROM runs JOIN quality ON quality.run = runs.id
    WHERE quality.code = 'host_memory_not_shown'
);
