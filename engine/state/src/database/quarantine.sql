-- Moments are microseconds since 1970.
CREATE TABLE quarantine (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    sha256      TEXT NOT NULL,
    -- What it is run as; the same bytes mean something else in another language.
    language    TEXT NOT NULL,
    state       TEXT NOT NULL,
    policy      TEXT NOT NULL,
    report      TEXT NOT NULL,
    names       TEXT NOT NULL,
    bytes       INTEGER NOT NULL,
    submitted   INTEGER NOT NULL,
    last_seen   INTEGER NOT NULL,
    seen        INTEGER NOT NULL,
    two_persons INTEGER NOT NULL,
    unreleasable TEXT,
    left_out    INTEGER NOT NULL,
    request     TEXT,
    decision    TEXT,
    release_policy  TEXT,
    release_expires INTEGER,
    release_uses    INTEGER,
    UNIQUE (sha256, language)
) STRICT;
CREATE TABLE quarantine_files (
    item     INTEGER NOT NULL REFERENCES quarantine (seq),
    part     TEXT NOT NULL,
    language TEXT NOT NULL,
    sha256   TEXT NOT NULL,
    bytes    INTEGER NOT NULL,
    -- Why it is not kept.
    why      TEXT
) STRICT;
CREATE INDEX quarantine_files_item ON quarantine_files (item);
CREATE INDEX quarantine_files_sha256 ON quarantine_files (sha256);
CREATE TABLE quarantine_seen (
    item    INTEGER NOT NULL REFERENCES quarantine (seq),
    channel TEXT NOT NULL,
    PRIMARY KEY (item, channel)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY,
    time_us INTEGER NOT NULL,
    channel TEXT NOT NULL,
    actor   TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail  TEXT NOT NULL,
    prev    TEXT NOT NULL,
    hash    TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
