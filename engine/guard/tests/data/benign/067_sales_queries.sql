-- Top 10 customers in the last year
SELECT c.id,
       c.name,
       COUNT(o.id)                          AS orders,
       SUM(o.total)                         AS revenue,
       ROUND(AVG(o.total), 2)               AS avg_order
FROM customers c
JOIN orders o ON o.customer_id = c.id
WHERE o.status = 'paid'
  AND o.created_at >= CURRENT_DATE - INTERVAL '1 year'
GROUP BY c.id, c.name
ORDER BY revenue DESC
LIMIT 10;

-- Month over month growth
WITH monthly AS (
    SELECT date_trunc('month', created_at) AS month,
           SUM(total)                      AS revenue
    FROM orders
    WHERE status = 'paid'
    GROUP BY 1
)
SELECT month,
       revenue,
       LAG(revenue) OVER (ORDER BY month) AS previous,
       ROUND(100.0 * (revenue - LAG(revenue) OVER (ORDER BY month))
             / NULLIF(LAG(revenue) OVER (ORDER BY month), 0), 1) AS growth_pct,
       SUM(revenue) OVER (ORDER BY month) AS running_total
FROM monthly
ORDER BY month;

-- Customers without an order for 6 months
SELECT c.id, c.email, MAX(o.created_at) AS last_order
FROM customers c
LEFT JOIN orders o ON o.customer_id = c.id
GROUP BY c.id, c.email
HAVING MAX(o.created_at) IS NULL OR MAX(o.created_at) < now() - INTERVAL '6 months';
