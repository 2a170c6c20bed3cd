import re
import subprocess
import sys
from pathlib import Path


def seconds(stamp):
    total = 0.0
    for part in stamp.split(":"):
        total = total * 60 + float(part)
    return total


def duration(video):
    out = subprocess.check_output(
        ["ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0", str(video)], text=True
    )
    return float(out)


def read_marks(path):
    marks = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        m = re.match(r"\s*([\d:.]+)\s+(.*\S)", line)
        if m:
            marks.append((seconds(m[1]), m[2]))
    return sorted(marks)


def main(video, marks_file):
    video = Path(video)
    marks = read_marks(marks_file)
    end = duration(video)
    out_dir = video.with_suffix("")
    out_dir.mkdir(exist_ok=True)
    for i, (start, title) in enumerate(marks):
        stop = marks[i + 1][0] if i + 1 < len(marks) else end
        name = re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "_")
        target = out_dir / f"{i + 1:02d}_{name}{video.suffix}"
        cmd = f'ffmpeg -loglevel error -y -ss {start} -to {stop} -i "{video}" -c copy "{target}"'
        print(target.name)
        if subprocess.call(cmd, shell=True) != 0:
            print("  failed!")


if __name__ == "__main__":
    main(*sys.argv[1:3])
