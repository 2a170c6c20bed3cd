import base64
import mimetypes
import re
import sys
from pathlib import Path


def data_uri(path):
    mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{mime};base64,{base64.b64encode(path.read_bytes()).decode()}"


def local(base, ref):
    if re.match(r"^(https?:)?//|^data:|^#", ref):
        return None
    path = base / ref.split("?")[0].split("#")[0]
    return path if path.is_file() else None


def inline_css(css, base):
    def repl(m):
        path = local(base, m[1].strip("'\""))
        return f"url({data_uri(path)})" if path else m[0]
    return re.sub(r"url\(([^)]+)\)", repl, css)


def main(src, dst):
    src = Path(src)
    base = src.parent
    html = src.read_text(encoding="utf-8")

    def stylesheet(m):
        path = local(base, m[1])
        return f"<style>{inline_css(path.read_text(), path.parent)}</style>" if path else m[0]

    def script(m):
        path = local(base, m[1])
        if not path:
            return m[0]
        code = path.read_text().replace("</script", "<\\/script")
        return f"<script>{code}</script>"

    def image(m):
        path = local(base, m[2])
        return f"{m[1]}{data_uri(path)}{m[3]}" if path else m[0]

    html = re.sub(r'<link[^>]*rel="stylesheet"[^>]*href="([^"]+)"[^>]*>', stylesheet, html)
    html = re.sub(r'<script[^>]*src="([^"]+)"[^>]*>\s*</script>', script, html)
    html = re.sub(r'(<img[^>]*src=")([^"]+)(")', image, html)
    Path(dst).write_text(html, encoding="utf-8")
    print(f"{dst}: {len(html) / 1024:.0f} KiB")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "standalone.html")
