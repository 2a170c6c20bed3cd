"""Reset the development database and fill it with fake data."""
import os
import random
import sys

import psycopg2
from faker import Faker
from psycopg2.extras import execute_values

SCHEMA = """
DROP TABLE IF EXISTS order_items, orders, products, customers CASCADE;
CREATE TABLE customers (id serial PRIMARY KEY, name text NOT NULL, email text UNIQUE NOT NULL, city text);
CREATE TABLE products (id serial PRIMARY KEY, name text NOT NULL, price numeric(10,2) NOT NULL);
CREATE TABLE orders (id serial PRIMARY KEY, customer_id int REFERENCES customers, created_at timestamptz DEFAULT now());
CREATE TABLE order_items (order_id int REFERENCES orders, product_id int REFERENCES products, qty int CHECK (qty > 0), PRIMARY KEY (order_id, product_id));
"""


def main():
    url = os.environ.get("DATABASE_URL", "postgresql://localhost/shop_dev")
    if os.environ.get("APP_ENV") == "production" or "prod" in url:
        sys.exit("refusing to reset a production database")

    fake = Faker()
    Faker.seed(1234)
    random.seed(1234)
    with psycopg2.connect(url) as conn, conn.cursor() as cur:
        cur.execute(SCHEMA)
        execute_values(cur, "INSERT INTO customers (name, email, city) VALUES %s",
                       [(fake.name(), fake.unique.email(), fake.city()) for _ in range(200)])
        execute_values(cur, "INSERT INTO products (name, price) VALUES %s",
                       [(fake.catch_phrase(), round(random.uniform(2, 200), 2)) for _ in range(50)])
        for _ in range(500):
            cur.execute("INSERT INTO orders (customer_id, created_at) VALUES (%s, %s) RETURNING id",
                        (random.randint(1, 200), fake.date_time_this_year()))
            order_id = cur.fetchone()[0]
            items = random.sample(range(1, 51), random.randint(1, 5))
            execute_values(cur, "INSERT INTO order_items VALUES %s", [(order_id, p, random.randint(1, 4)) for p in items])
    print("done")


if __name__ == "__main__":
    main()
