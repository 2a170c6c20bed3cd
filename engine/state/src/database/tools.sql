-- Moments are microseconds since 1970.
CREATE TABLE plugins (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    name    TEXT NOT NULL UNIQUE,
    added   INTEGER NOT NULL,
    version TEXT NOT NULL,
    -- A version that a person has to accept first.
    pending TEXT
) STRICT;
CREATE TABLE plugin_grants (
    plugin     TEXT NOT NULL REFERENCES plugins (name) ON DELETE CASCADE,
    -- Of the component that it was granted to.
    digest     TEXT NOT NULL,
    capability TEXT NOT NULL,
    -- Which folder it was, whatever has its name later.
    dev        INTEGER,
    ino        INTEGER,
    granted    INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    PRIMARY KEY (plugin, digest, capability)
) STRICT, WITHOUT ROWID;
CREATE TABLE plugin_values (
    plugin TEXT NOT NULL REFERENCES plugins (name) ON DELETE CASCADE,
    key    TEXT NOT NULL,
    value  BLOB NOT NULL,
    PRIMARY KEY (plugin, key)
) STRICT, WITHOUT ROWID;
