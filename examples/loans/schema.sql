-- A library's loans: no book is lent twice at the same time, and nobody has more than three.
CREATE TABLE loans (
    book text NOT NULL,
    reader text NOT NULL,
    since date NOT NULL,
    until date,
    CHECK (until >= since)
);

CREATE UNIQUE INDEX one_reader_a_book ON loans (book) WHERE until IS NULL;

CREATE FUNCTION lend(what text, who text, day date) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM loans WHERE reader = who) >= 3 THEN
        RAISE EXCEPTION '% has three books', who;
    END IF;
    INSERT INTO loans (book, reader, since) VALUES (what, who, day);
END $$;
