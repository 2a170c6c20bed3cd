import os
import uuid

from flask import Flask, abort, flash, redirect, render_template_string, request, send_from_directory, url_for
from werkzeug.utils import secure_filename

UPLOAD_FOLDER = os.path.abspath("uploads")
ALLOWED = {"png", "jpg", "jpeg", "gif", "webp"}

app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = 8 * 1024 * 1024
app.secret_key = os.environ.get("FLASK_SECRET", os.urandom(16))
os.makedirs(UPLOAD_FOLDER, exist_ok=True)

PAGE = """
<!doctype html><title>Gallery</title>
{% for m in get_flashed_messages() %}<p class="msg">{{ m }}</p>{% endfor %}
<form method="post" enctype="multipart/form-data">
  <input type="file" name="file" accept="image/*"> <button>Upload</button>
</form>
{% for f in files %}
  <figure><img src="{{ url_for('image', name=f) }}" width="220">
  <form method="post" action="{{ url_for('delete', name=f) }}"><button>delete</button></form></figure>
{% endfor %}
"""


@app.route("/", methods=["GET", "POST"])
def index():
    if request.method == "POST":
        file = request.files.get("file")
        if not file or not file.filename:
            flash("No file selected")
            return redirect(request.url)
        ext = secure_filename(file.filename).rsplit(".", 1)[-1].lower()
        if ext not in ALLOWED:
            flash("Only images are allowed")
            return redirect(request.url)
        file.save(os.path.join(UPLOAD_FOLDER, f"{uuid.uuid4().hex}.{ext}"))
        return redirect(url_for("index"))
    return render_template_string(PAGE, files=sorted(os.listdir(UPLOAD_FOLDER)))


@app.route("/image/<name>")
def image(name):
    return send_from_directory(UPLOAD_FOLDER, name)


@app.post("/delete/<name>")
def delete(name):
    path = os.path.join(UPLOAD_FOLDER, secure_filename(name))
    if not os.path.isfile(path):
        abort(404)
    os.remove(path)
    return redirect(url_for("index"))


if __name__ == "__main__":
    app.run(debug=True)
