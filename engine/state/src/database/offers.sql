-- Which tools of a plugin are offered; without a row all are.
CREATE TABLE plugin_offers (
    plugin TEXT PRIMARY KEY REFERENCES plugins (name) ON DELETE CASCADE,
    offer  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
