-- Signed statements about runs, as envelopes in JSON. The audit log has an entry for each, by its digest.
CREATE TABLE receipts (
    digest   TEXT PRIMARY KEY,
    -- Digest of what it is about: a repetition is about the same.
    about    TEXT NOT NULL,
    envelope TEXT NOT NULL
) STRICT;
CREATE INDEX receipts_about ON receipts (about);
