-- Which concerns about a training were sent to a chat: 1 that memory grows, 2 that the peak is close to the limit.
ALTER TABLE live ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
