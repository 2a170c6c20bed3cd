from flask import Flask, g, jsonify, request, abort
import sqlite3

app = Flask(__name__)
DATABASE = "todos.db"


def get_db():
    if "db" not in g:
        g.db = sqlite3.connect(DATABASE)
        g.db.row_factory = sqlite3.Row
    return g.db


@app.teardown_appcontext
def close_db(exc):
    db = g.pop("db", None)
    if db is not None:
        db.close()


def init_db():
    with sqlite3.connect(DATABASE) as db:
        db.execute(
            """CREATE TABLE IF NOT EXISTS todos (
                   id INTEGER PRIMARY KEY AUTOINCREMENT,
                   title TEXT NOT NULL,
                   done INTEGER NOT NULL DEFAULT 0,
                   created_at TEXT DEFAULT CURRENT_TIMESTAMP
               )"""
        )


@app.get("/todos")
def list_todos():
    rows = get_db().execute("SELECT * FROM todos ORDER BY id").fetchall()
    return jsonify([dict(r) for r in rows])


@app.post("/todos")
def create_todo():
    data = request.get_json(silent=True) or {}
    title = (data.get("title") or "").strip()
    if not title:
        abort(400, description="title is required")
    db = get_db()
    cur = db.execute("INSERT INTO todos (title) VALUES (?)", (title,))
    db.commit()
    return jsonify({"id": cur.lastrowid, "title": title, "done": 0}), 201


@app.patch("/todos/<int:todo_id>")
def update_todo(todo_id):
    data = request.get_json()
    db = get_db()
    cur = db.execute("UPDATE todos SET done = ? WHERE id = ?", (int(bool(data.get("done"))), todo_id))
    db.commit()
    if cur.rowcount == 0:
        abort(404)
    return "", 204


@app.delete("/todos/<int:todo_id>")
def delete_todo(todo_id):
    db = get_db()
    cur = db.execute("DELETE FROM todos WHERE id = ?", (todo_id,))
    db.commit()
    if cur.rowcount == 0:
        abort(404)
    return "", 204


if __name__ == "__main__":
    init_db()
    app.run(host="0.0.0.0", port=5000, debug=True)
