-- Moments are microseconds since 1970.
CREATE TABLE approvals (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT NOT NULL UNIQUE,
    kind     TEXT NOT NULL,
    -- The channel of whoever asked.
    asked_by TEXT NOT NULL,
    -- Of all that is asked, by which the same call finds it again.
    ask      TEXT NOT NULL,
    -- Of what it is for.
    digest   TEXT NOT NULL,
    what     TEXT NOT NULL,
    reason   TEXT,
    asked    INTEGER NOT NULL,
    created  INTEGER NOT NULL,
    expires  INTEGER NOT NULL,
    state    TEXT NOT NULL,
    decision TEXT,
    -- Of the question that a client was last given to answer; taken with the answer.
    ticket   TEXT
) STRICT;
CREATE INDEX approvals_ask ON approvals (asked_by, ask);
-- The channel that a release is for; any where there is none.
ALTER TABLE quarantine ADD COLUMN release_for TEXT;
