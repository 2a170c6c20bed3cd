-- Library schema. Drops and recreates everything, for development only.
PRAGMA foreign_keys = ON;

DROP TABLE IF EXISTS loans;
DROP TABLE IF EXISTS book_authors;
DROP TABLE IF EXISTS books;
DROP TABLE IF EXISTS authors;
DROP TABLE IF EXISTS members;

CREATE TABLE authors (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL
);

CREATE TABLE books (
    id     INTEGER PRIMARY KEY,
    isbn   TEXT UNIQUE,
    title  TEXT NOT NULL,
    copies INTEGER NOT NULL DEFAULT 1 CHECK (copies >= 0)
);

CREATE TABLE book_authors (
    book_id   INTEGER NOT NULL REFERENCES books(id) ON DELETE CASCADE,
    author_id INTEGER NOT NULL REFERENCES authors(id),
    PRIMARY KEY (book_id, author_id)
);

CREATE TABLE members (
    id     INTEGER PRIMARY KEY,
    email  TEXT NOT NULL UNIQUE,
    joined TEXT NOT NULL DEFAULT (date('now'))
);

CREATE TABLE loans (
    id          INTEGER PRIMARY KEY,
    book_id     INTEGER NOT NULL REFERENCES books(id),
    member_id   INTEGER NOT NULL REFERENCES members(id),
    loaned_at   TEXT NOT NULL DEFAULT (date('now')),
    due_at      TEXT NOT NULL,
    returned_at TEXT
);
CREATE INDEX loans_open ON loans (member_id) WHERE returned_at IS NULL;

INSERT INTO authors (id, name) VALUES (1, 'A. Writer'), (2, 'B. Novelist');
INSERT INTO books (id, isbn, title, copies) VALUES
    (1, '9780000000001', 'The Long Road', 3),
    (2, '9780000000002', 'Short Stories', 1);
INSERT INTO book_authors VALUES (1, 1), (2, 2), (2, 1);
INSERT INTO members (email) VALUES ('reader1@example.org'), ('reader2@example.org');
INSERT INTO loans (book_id, member_id, due_at) VALUES (1, 1, date('now', '+14 days'));
