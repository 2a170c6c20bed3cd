import json
import subprocess
import sys

from basket import Line
from basket.export import export


def test_export_can_be_read_back(tmp_path):
    export([Line("apple", 40, 2)], tmp_path / "basket.json")
    assert json.loads((tmp_path / "basket.json").read_text()) == [{"name": "apple", "cents": 40, "count": 2}]


def test_export_leaves_nothing_else(tmp_path):
    export([], tmp_path / "basket.json")
    assert [path.name for path in tmp_path.iterdir()] == ["basket.json"]


def test_another_process_sees_the_file():
    export([Line("pear", 55)], "basket.json")
    said = subprocess.run([sys.executable, "-c", "print(open('basket.json').read())"], capture_output=True, text=True)
    assert "pear" in said.stdout
