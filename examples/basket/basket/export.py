"""Writes a basket as JSON, whole or not at all."""

import json
import os
import tempfile


def export(lines, path):
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        json.dump([vars(line) for line in lines], file)
    os.replace(file.name, path)
