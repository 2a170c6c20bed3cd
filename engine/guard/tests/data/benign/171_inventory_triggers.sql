CREATE TABLE IF NOT EXISTS audit_log (
    id         BIGSERIAL PRIMARY KEY,
    table_name TEXT        NOT NULL,
    operation  TEXT        NOT NULL,
    old_row    JSONB,
    new_row    JSONB,
    changed_by TEXT        NOT NULL DEFAULT current_user,
    changed_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE OR REPLACE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit_log (table_name, operation, old_row, new_row)
    VALUES (TG_TABLE_NAME, TG_OP,
            CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END,
            CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END);
    RETURN COALESCE(NEW, OLD);
END $$;

DROP TRIGGER IF EXISTS products_audit ON products;
CREATE TRIGGER products_audit
    AFTER INSERT OR UPDATE OR DELETE ON products
    FOR EACH ROW EXECUTE FUNCTION audit();

CREATE OR REPLACE FUNCTION reserve_stock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE products SET stock = stock - NEW.quantity
    WHERE id = NEW.product_id AND stock >= NEW.quantity;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'not enough stock for product %', NEW.product_id;
    END IF;
    RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS order_items_stock ON order_items;
CREATE TRIGGER order_items_stock
    BEFORE INSERT ON order_items
    FOR EACH ROW EXECUTE FUNCTION reserve_stock();
