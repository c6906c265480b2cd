-- When a session was used last; of older ones, when it was opened.
ALTER TABLE sessions ADD COLUMN seen_ms INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET seen_ms = created_ms;
