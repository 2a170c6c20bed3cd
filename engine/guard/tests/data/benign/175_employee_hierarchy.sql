WITH RECURSIVE org AS (
    SELECT id, name, manager_id, salary, 0 AS depth, CAST(name AS TEXT) AS path
    FROM employees
    WHERE manager_id IS NULL

    UNION ALL

    SELECT e.id, e.name, e.manager_id, e.salary, o.depth + 1, o.path || ' > ' || e.name
    FROM employees e
    JOIN org o ON e.manager_id = o.id
    WHERE o.depth < 20
)
SELECT printf('%*s%s', depth * 4, '', name) AS chart, salary, path
FROM org
ORDER BY path;

-- Total cost of everybody below (and including) each manager
WITH RECURSIVE below AS (
    SELECT id AS root, id, salary FROM employees
    UNION ALL
    SELECT b.root, e.id, e.salary
    FROM below b
    JOIN employees e ON e.manager_id = b.id
)
SELECT m.name, COUNT(*) - 1 AS reports, SUM(b.salary) AS total_cost
FROM below b
JOIN employees m ON m.id = b.root
GROUP BY m.id, m.name
HAVING COUNT(*) > 1
ORDER BY total_cost DESC;
