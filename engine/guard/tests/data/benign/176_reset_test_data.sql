-- Resets the demo tenant (id 999). Other tenants are not touched.
\set tenant 999

BEGIN;
DELETE FROM invoice_lines WHERE invoice_id IN (SELECT id FROM invoices WHERE tenant_id = :tenant);
DELETE FROM invoices      WHERE tenant_id = :tenant;
DELETE FROM projects      WHERE tenant_id = :tenant;
DELETE FROM users         WHERE tenant_id = :tenant AND role <> 'owner';

INSERT INTO projects (tenant_id, name, budget)
SELECT :tenant, 'Demo project ' || n, 1000 * n
FROM generate_series(1, 5) AS n;

INSERT INTO invoices (tenant_id, number, issued_on, total)
SELECT :tenant,
       'DEMO-' || lpad(n::text, 4, '0'),
       current_date - (n * 7),
       round((random() * 900 + 100)::numeric, 2)
FROM generate_series(1, 40) AS n;

UPDATE tenants SET demo_reset_at = now() WHERE id = :tenant;
COMMIT;
