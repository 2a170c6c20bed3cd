CREATE TABLE runs (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    id        TEXT NOT NULL UNIQUE,
    started   INTEGER NOT NULL,
    command   TEXT NOT NULL,
    cause     TEXT NOT NULL,
    exit_code INTEGER,
    usage     TEXT NOT NULL,
    outcome   TEXT NOT NULL
) STRICT;
