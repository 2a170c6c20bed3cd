-- Migration 0007: split full_name and index email
BEGIN;

ALTER TABLE users ADD COLUMN first_name TEXT;
ALTER TABLE users ADD COLUMN last_name TEXT;

UPDATE users
SET first_name = split_part(full_name, ' ', 1),
    last_name  = NULLIF(substr(full_name, length(split_part(full_name, ' ', 1)) + 2), '')
WHERE full_name IS NOT NULL;

-- sanity check: nobody with a full name may end up without a first name
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM users WHERE full_name <> '' AND first_name IS NULL) THEN
        RAISE EXCEPTION 'split failed for some rows';
    END IF;
END
$$;

ALTER TABLE users DROP COLUMN full_name;

CREATE UNIQUE INDEX IF NOT EXISTS users_email_lower_idx ON users (lower(email));

COMMIT;
