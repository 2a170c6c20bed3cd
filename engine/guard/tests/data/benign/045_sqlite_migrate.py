"""Apply numbered SQL files (001_init.sql, 002_...) to a SQLite database exactly once."""
import re
import sqlite3
import sys
from pathlib import Path

MIGRATIONS = Path(__file__).parent / "migrations"


def applied(conn):
    conn.execute("CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, applied_at TEXT DEFAULT CURRENT_TIMESTAMP)")
    return {row[0] for row in conn.execute("SELECT version FROM schema_migrations")}


def pending(conn):
    done = applied(conn)
    for path in sorted(MIGRATIONS.glob("*.sql")):
        m = re.match(r"(\d+)_", path.name)
        if m and int(m.group(1)) not in done:
            yield int(m.group(1)), path


def main(db_path):
    conn = sqlite3.connect(db_path)
    todo = list(pending(conn))
    if not todo:
        print("database is up to date")
        return
    for version, path in todo:
        print(f"applying {path.name} ...", end=" ")
        try:
            conn.executescript("BEGIN;\n" + path.read_text() + "\nCOMMIT;")
            conn.execute("INSERT INTO schema_migrations (version) VALUES (?)", (version,))
            conn.commit()
        except sqlite3.Error as exc:
            conn.rollback()
            print("FAILED")
            sys.exit(str(exc))
        print("ok")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "app.db")
