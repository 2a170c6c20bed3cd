import shutil
import subprocess
from pathlib import Path
from unittest.mock import call

import pytest


def deploy(version: str, root: Path, run=None, keep: int = 2) -> Path:
    run = run or subprocess.run
    target = root / version
    if target.exists():
        raise FileExistsError(target)
    run(["git", "clone", "--branch", version, "--depth", "1", "repo", str(target)], check=True)
    try:
        run(["make", "-C", str(target), "build"], check=True)
    except subprocess.CalledProcessError:
        shutil.rmtree(target, ignore_errors=True)
        raise
    releases = sorted(p for p in root.iterdir() if p.is_dir())
    for old in releases[:-keep]:
        shutil.rmtree(old)
    return target


@pytest.fixture
def fake_run(mocker):
    def effect(cmd, **kwargs):
        if cmd[:2] == ["git", "clone"]:
            Path(cmd[-1]).mkdir()
        return subprocess.CompletedProcess(cmd, 0)
    return mocker.Mock(side_effect=effect)


def test_runs_git_then_make(tmp_path, fake_run):
    target = deploy("v1", tmp_path, run=fake_run)
    assert target.is_dir()
    assert fake_run.call_args_list == [
        call(["git", "clone", "--branch", "v1", "--depth", "1", "repo", str(target)], check=True),
        call(["make", "-C", str(target), "build"], check=True),
    ]


def test_failed_build_is_removed(tmp_path, mocker):
    def effect(cmd, **kwargs):
        if cmd[0] == "make":
            raise subprocess.CalledProcessError(2, cmd)
        Path(cmd[-1]).mkdir()

    with pytest.raises(subprocess.CalledProcessError):
        deploy("v1", tmp_path, run=mocker.Mock(side_effect=effect))
    assert list(tmp_path.iterdir()) == []


def test_old_releases_are_pruned(tmp_path, fake_run):
    for v in ("v1", "v2", "v3"):
        deploy(v, tmp_path, run=fake_run)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["v2", "v3"]


def test_existing_release(tmp_path, fake_run):
    (tmp_path / "v1").mkdir()
    with pytest.raises(FileExistsError):
        deploy("v1", tmp_path, run=fake_run)
    fake_run.assert_not_called()
