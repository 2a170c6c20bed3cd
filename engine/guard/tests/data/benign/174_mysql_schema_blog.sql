SET NAMES utf8mb4;
SET FOREIGN_KEY_CHECKS = 0;
DROP TABLE IF EXISTS replies;
DROP TABLE IF EXISTS threads;
DROP TABLE IF EXISTS members;
SET FOREIGN_KEY_CHECKS = 1;

CREATE TABLE members (
    id            INT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
    nickname      VARCHAR(40)  NOT NULL,
    email         VARCHAR(190) NOT NULL,
    password_hash CHAR(60)     NOT NULL,
    created_at    TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    UNIQUE KEY (nickname),
    UNIQUE KEY (email)
) ENGINE = InnoDB;

CREATE TABLE threads (
    id        INT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
    member_id INT UNSIGNED NOT NULL,
    title     VARCHAR(200) NOT NULL,
    body      MEDIUMTEXT   NOT NULL,
    deleted   TINYINT(1)   NOT NULL DEFAULT 0,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    FULLTEXT KEY ft (title, body),
    FOREIGN KEY (member_id) REFERENCES members (id)
) ENGINE = InnoDB;

CREATE TABLE replies (
    id        INT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
    thread_id INT UNSIGNED NOT NULL,
    member_id INT UNSIGNED NOT NULL,
    body      TEXT NOT NULL,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (thread_id) REFERENCES threads (id) ON DELETE CASCADE,
    FOREIGN KEY (member_id) REFERENCES members (id)
) ENGINE = InnoDB;

CREATE EVENT IF NOT EXISTS purge_deleted_threads
    ON SCHEDULE EVERY 1 DAY
    DO DELETE FROM threads WHERE deleted = 1 AND created_at < NOW() - INTERVAL 90 DAY;

SELECT id, title, MATCH (title, body) AGAINST ('backup restore' IN NATURAL LANGUAGE MODE) AS score
FROM threads
WHERE MATCH (title, body) AGAINST ('backup restore' IN NATURAL LANGUAGE MODE)
ORDER BY score DESC
LIMIT 20;
