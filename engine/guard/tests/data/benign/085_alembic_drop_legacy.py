"""drop legacy_orders

Revision ID: 3f2a9c0d7b11
Revises: 9d1e44ab0c25
Create Date: 2024-03-04 10:12:31
"""
import sqlalchemy as sa
from alembic import op

revision = "3f2a9c0d7b11"
down_revision = "9d1e44ab0c25"
branch_labels = None
depends_on = None


def upgrade() -> None:
    conn = op.get_bind()
    remaining = conn.execute(
        sa.text("SELECT count(*) FROM legacy_orders l LEFT JOIN orders o ON o.legacy_id = l.id WHERE o.id IS NULL")
    ).scalar()
    if remaining:
        raise RuntimeError(f"{remaining} legacy orders were not migrated yet")
    op.drop_index("ix_legacy_orders_customer", table_name="legacy_orders")
    op.drop_table("legacy_orders")


def downgrade() -> None:
    op.create_table(
        "legacy_orders",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("customer_id", sa.Integer, nullable=False),
        sa.Column("amount", sa.Numeric(10, 2), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now()),
    )
    op.create_index("ix_legacy_orders_customer", "legacy_orders", ["customer_id"])
    op.execute("INSERT INTO legacy_orders (id, customer_id, amount) SELECT legacy_id, customer_id, total FROM orders WHERE legacy_id IS NOT NULL")
