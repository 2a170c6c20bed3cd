import fnmatch
import os
import sys
import zipfile

DEFAULT_IGNORE = [".git", ".venv", "venv", "node_modules", "__pycache__", "*.pyc", ".DS_Store", "*.zip", ".idea"]


def read_ignore(root):
    patterns = list(DEFAULT_IGNORE)
    path = os.path.join(root, ".zipignore")
    if os.path.exists(path):
        with open(path) as f:
            patterns += [l.strip() for l in f if l.strip() and not l.startswith("#")]
    return patterns


def ignored(name, rel, patterns):
    return any(fnmatch.fnmatch(name, p) or fnmatch.fnmatch(rel, p) for p in patterns)


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ".")
    out = sys.argv[2] if len(sys.argv) > 2 else os.path.basename(root) + ".zip"
    patterns = read_ignore(root)
    count = 0
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zf:
        for dirpath, dirs, files in os.walk(root):
            rel_dir = os.path.relpath(dirpath, root)
            dirs[:] = sorted(d for d in dirs if not ignored(d, os.path.normpath(os.path.join(rel_dir, d)), patterns))
            for name in sorted(files):
                rel = os.path.normpath(os.path.join(rel_dir, name))
                if ignored(name, rel, patterns) or os.path.abspath(os.path.join(dirpath, name)) == os.path.abspath(out):
                    continue
                zf.write(os.path.join(dirpath, name), os.path.join(os.path.basename(root), rel))
                count += 1
    print(f"{out}: {count} files, {os.path.getsize(out) / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
