import filecmp
import sys


def compare(cmp, prefix=""):
    result = {"left": [], "right": [], "diff": [], "error": []}
    result["left"] += [prefix + n for n in cmp.left_only]
    result["right"] += [prefix + n for n in cmp.right_only]
    result["diff"] += [prefix + n for n in cmp.diff_files]
    result["error"] += [prefix + n for n in cmp.funny_files]
    for name, sub in cmp.subdirs.items():
        for key, values in compare(sub, f"{prefix}{name}/").items():
            result[key] += values
    return result


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: diff_folders.py LEFT RIGHT")
    left, right = sys.argv[1:]
    result = compare(filecmp.dircmp(left, right, ignore=[".git", "__pycache__", ".DS_Store"]))
    for key, title in (("left", f"only in {left}"), ("right", f"only in {right}"), ("diff", "different"), ("error", "could not compare")):
        if result[key]:
            print(f"{title}:")
            for name in sorted(result[key]):
                print(f"  {name}")
    return 1 if any(result.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
