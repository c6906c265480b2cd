-- The hash under which the bytes of an unfinished upload are about to be put into the blob store. It is written
-- first, so that a server that dies between the two finds the file again. It may be there or not.
ALTER TABLE uploads ADD COLUMN arrived TEXT;
