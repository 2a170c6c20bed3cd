BEGIN;
ALTER TABLE events RENAME TO events_old;

CREATE TABLE events (
    id         BIGINT GENERATED ALWAYS AS IDENTITY,
    kind       TEXT        NOT NULL,
    payload    JSONB       NOT NULL DEFAULT '{}',
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);

CREATE OR REPLACE FUNCTION ensure_event_partition(month DATE) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first DATE := date_trunc('month', month);
    name  TEXT := 'events_' || to_char(first, 'YYYY_MM');
BEGIN
    EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF events FOR VALUES FROM (%L) TO (%L)',
                   name, first, first + INTERVAL '1 month');
END $$;

SELECT ensure_event_partition(m::date)
FROM generate_series(date_trunc('month', now() - INTERVAL '12 months'), now() + INTERVAL '2 months', '1 month') AS m;

INSERT INTO events (kind, payload, created_at)
SELECT kind, payload, created_at FROM events_old WHERE created_at >= date_trunc('month', now() - INTERVAL '12 months');
DROP TABLE events_old;
COMMIT;

-- maintenance: drop partitions older than a year
DO $$
DECLARE r RECORD;
BEGIN
    FOR r IN SELECT relname FROM pg_class
             WHERE relname ~ '^events_\d{4}_\d{2}$'
               AND to_date(substr(relname, 8), 'YYYY_MM') < date_trunc('month', now() - INTERVAL '12 months')
    LOOP
        EXECUTE format('DROP TABLE IF EXISTS %I', r.relname);
        RAISE NOTICE 'dropped %', r.relname;
    END LOOP;
END $$;
