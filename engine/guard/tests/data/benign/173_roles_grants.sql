-- Roles for the "shop" database. Passwords are set separately with \password
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'shop_readonly') THEN
        CREATE ROLE shop_readonly NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'shop_app') THEN
        CREATE ROLE shop_app LOGIN CONNECTION LIMIT 50;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'reporting') THEN
        CREATE ROLE reporting LOGIN IN ROLE shop_readonly;
    END IF;
END $$;

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT CONNECT ON DATABASE shop TO shop_readonly, shop_app;
GRANT USAGE ON SCHEMA public TO shop_readonly, shop_app;

GRANT SELECT ON ALL TABLES IN SCHEMA public TO shop_readonly;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO shop_readonly;

GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO shop_app;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO shop_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO shop_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO shop_app;

ALTER ROLE reporting SET statement_timeout = '60s';
ALTER ROLE reporting SET default_transaction_read_only = on;
