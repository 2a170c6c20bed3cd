-- Calls that were answered with a task. Moments are microseconds since 1970.
CREATE TABLE tasks (
    id      TEXT PRIMARY KEY,
    caller  TEXT NOT NULL,
    -- The service that does it: what a dead one left will never be done.
    service TEXT NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    -- NULL while it is done.
    expires INTEGER,
    state   TEXT NOT NULL,
    payload TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_caller ON tasks (caller);
