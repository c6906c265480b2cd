-- What the stand-ins of a redacted link are made with (`trace::redact::Key`): whoever holds the link
-- must never learn it, for it would let names be guessed. Links from before get one too.
ALTER TABLE shares ADD COLUMN names_key BLOB; -- 16 random bytes; NULL: nothing is left out
UPDATE shares SET names_key = randomblob(16) WHERE redaction = 'redacted';
