-- Archive old orders. Run inside a maintenance window.
BEGIN;

CREATE TABLE IF NOT EXISTS orders_archive (LIKE orders INCLUDING ALL);
CREATE TABLE IF NOT EXISTS order_items_archive (LIKE order_items INCLUDING ALL);

CREATE TEMP TABLE to_archive ON COMMIT DROP AS
SELECT id
FROM orders
WHERE created_at < now() - INTERVAL '2 years'
  AND status IN ('delivered', 'cancelled');

INSERT INTO orders_archive
SELECT o.* FROM orders o JOIN to_archive t USING (id)
ON CONFLICT DO NOTHING;

INSERT INTO order_items_archive
SELECT i.* FROM order_items i JOIN to_archive t ON t.id = i.order_id
ON CONFLICT DO NOTHING;

DELETE FROM order_items WHERE order_id IN (SELECT id FROM to_archive);
DELETE FROM orders WHERE id IN (SELECT id FROM to_archive);

COMMIT;

VACUUM ANALYZE orders;
VACUUM ANALYZE order_items;
