"""Extract an archive into a directory while refusing members that escape it."""
import sys
import tarfile
import zipfile
from pathlib import Path


class UnsafeArchive(Exception):
    pass


def check(dest: Path, name: str):
    target = (dest / name).resolve()
    if not target.is_relative_to(dest.resolve()):
        raise UnsafeArchive(f"member {name!r} would be written outside of {dest}")


def extract(archive: Path, dest: Path) -> int:
    dest.mkdir(parents=True, exist_ok=True)
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zf:
            for info in zf.infolist():
                check(dest, info.filename)
            zf.extractall(dest)
            return len(zf.infolist())
    if tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tf:
            members = tf.getmembers()
            for m in members:
                check(dest, m.name)
                if m.issym() or m.islnk():
                    check(dest, str(Path(m.name).parent / m.linkname))
                if m.isdev():
                    raise UnsafeArchive(f"device file {m.name}")
            tf.extractall(dest, members)
            return len(members)
    raise ValueError(f"{archive} is neither zip nor tar")


if __name__ == "__main__":
    archive = Path(sys.argv[1])
    dest = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(archive.name.split(".")[0])
    print(f"extracted {extract(archive, dest)} entries to {dest}")
