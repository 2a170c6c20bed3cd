-- How many duplicates are there?
SELECT lower(trim(email)) AS email, count(*)
FROM contacts
WHERE email IS NOT NULL
GROUP BY 1
HAVING count(*) > 1
ORDER BY 2 DESC;

BEGIN;

CREATE TABLE contacts_backup AS SELECT * FROM contacts;

WITH ranked AS (
    SELECT id,
           row_number() OVER (
               PARTITION BY lower(trim(email))
               ORDER BY updated_at DESC NULLS LAST, id DESC
           ) AS rn
    FROM contacts
    WHERE email IS NOT NULL
)
DELETE FROM contacts
USING ranked
WHERE contacts.id = ranked.id
  AND ranked.rn > 1;

UPDATE contacts SET email = lower(trim(email)) WHERE email IS DISTINCT FROM lower(trim(email));
ALTER TABLE contacts ADD CONSTRAINT contacts_email_key UNIQUE (email);

COMMIT;
