-- Sessions of agents, and their events: what happened, in its order, so that a killed session goes on. Moments are microseconds since 1970.
CREATE TABLE agent_sessions (
    id      TEXT PRIMARY KEY,
    time_us INTEGER NOT NULL,
    -- running, or how the session ended.
    state   TEXT NOT NULL,
    -- The request, as JSON.
    task    TEXT NOT NULL
) STRICT;
CREATE TABLE agent_events (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    session   TEXT NOT NULL,
    -- From 1; 0 for the session itself.
    candidate INTEGER NOT NULL,
    time_us   INTEGER NOT NULL,
    -- As JSON.
    entry     TEXT NOT NULL
) STRICT;
CREATE INDEX agent_events_session ON agent_events (session);
