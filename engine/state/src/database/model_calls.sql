-- Calls of language models. Moments are microseconds since 1970.
CREATE TABLE model_calls (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Random; that of an entry of a file is made of the entry, so that the file adds nothing when it is read again.
    id          TEXT NOT NULL UNIQUE,
    time_us     INTEGER NOT NULL,
    role        TEXT NOT NULL,
    session     TEXT,
    iteration   INTEGER,
    -- NULL for an entry of a file.
    endpoint    TEXT,
    provider    TEXT,
    model       TEXT,
    -- In all; NULL when the server did not count.
    tokens      INTEGER,
    fresh       INTEGER,
    cached      INTEGER,
    output      INTEGER,
    -- known, free or unknown.
    cost        TEXT NOT NULL,
    picodollars INTEGER,
    time_taken_us INTEGER,
    -- 0 when it may have been charged although no reply arrived.
    replied     INTEGER NOT NULL,
    -- The time as the file has it, as JSON.
    stamp       TEXT
) STRICT;
CREATE INDEX model_calls_session ON model_calls (session);
