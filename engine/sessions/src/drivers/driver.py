"""Interpreter of a session: reads cells as JSON lines from the descriptor that was standard input, and answers there."""
import sys as _sys


def _main():
    import builtins, json, os, queue, select, signal, threading, types

    kind = _sys.argv[1] if len(_sys.argv) > 1 else "python"
    more = _sys.argv[2] if len(_sys.argv) > 2 else ""
    _sys.argv = [""]
    # A number above those that programs use, closed in every program that a cell starts.
    import fcntl
    wire = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 700)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # Marks go by these also when a cell closed the streams themselves, or put a file in their place.
    ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 690) for fd in (1, 2)]
    me = os.getpid()

    def alone():
        """In a child that a cell forked: what is the interpreter's own is closed."""
        for fd in [wire] + ends:
            try:
                os.close(fd)
            except OSError:
                pass

    os.register_at_fork(after_in_child=alone)
    cells = queue.SimpleQueue()
    state = {"running": None, "stopped": None, "swallowed": None}
    main_thread = threading.main_thread().ident
    MAX_TEXT = 64 * 1024
    MAX_IMAGES, MAX_IMAGE_BYTES = 4, 1 << 20

    def bounded(text):
        if len(text) <= MAX_TEXT:
            return text
        half = MAX_TEXT // 2
        return text[:half] + "\n[... %d characters left out ...]\n" % (len(text) - MAX_TEXT) + text[-half:]

    def interrupted(number, frame):
        if state["running"] is not None:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)
    told_unraisable = _sys.unraisablehook

    def unraisable(about):
        """Notes an interrupt that Python swallows: in a finalizer, a callback of the collector or of a weak reference."""
        if about.exc_type is not None and issubclass(about.exc_type, KeyboardInterrupt) and state["stopped"] == state["running"]:
            state["swallowed"] = state["running"]
        else:
            told_unraisable(about)

    _sys.unraisablehook = unraisable

    for stream in (_sys.stdout, _sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")

    def send(message):
        data = json.dumps(message).encode("utf-8", "surrogatepass") + b"\n"
        while data:
            data = data[os.write(wire, data):]

    import stat
    home = os.path.expanduser("~")
    MAX_ENTRIES, MAX_DEPTH, MAX_DATA = 20000, 24, 2 << 20

    def listed(everything):
        """Entries of the home folder, or of its folder of outputs alone; folders are entered, links are not."""
        top = home if everything else os.path.join(home, "outputs")
        if os.path.islink(top) or not os.path.isdir(top):
            return []
        found, waiting = [], [(top, 0)]
        while waiting and len(found) < MAX_ENTRIES:
            folder, depth = waiting.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError:
                continue
            for entry in entries[:MAX_ENTRIES]:
                try:
                    about = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                path = os.path.relpath(entry.path, home)
                if stat.S_ISDIR(about.st_mode):
                    if depth < MAX_DEPTH and path not in (".deps", "node_modules"):
                        waiting.append((entry.path, depth + 1))
                    continue
                kind = "file" if stat.S_ISREG(about.st_mode) else "link" if stat.S_ISLNK(about.st_mode) else "other"
                try:
                    path.encode()
                except UnicodeEncodeError:
                    continue
                found.append([path, kind, about.st_size, max(about.st_mtime_ns, 0)])
        return found[:MAX_ENTRIES]

    def file_answer(asked):
        import base64
        path = os.path.join(home, asked["path"])
        try:
            if asked["op"] == "put":
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "ab" if asked["append"] else "wb") as out:
                    out.write(base64.b64decode(asked["data"]))
                    out.flush()
                    return {"value": str(os.fstat(out.fileno()).st_size)}
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(fd, "rb") as file:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    return {"error": "it is no file"}
                return {"contents": base64.b64encode(file.read(asked["most"] + 1)).decode()}
        except OSError as error:
            return {"error": error.strerror or str(error)}

    def read():
        rest = b""
        while True:
            # Raised again from here: what a hook raises is swallowed as well.
            while state["running"] is not None and state["stopped"] == state["running"]:
                if select.select([wire], [], [], 0.02)[0]:
                    break
                if state["running"] is not None and state["swallowed"] == state["running"]:
                    state["swallowed"] = None
                    language.interrupt()
            try:
                piece = os.read(wire, 1 << 16)
            except OSError:
                piece = b""
            if not piece:
                os._exit(0)
            rest += piece
            while b"\n" in rest:
                line, rest = rest.split(b"\n", 1)
                message = json.loads(line)
                if message["op"] != "interrupt":
                    cells.put(message)
                else:
                    # For a cell that has not begun yet.
                    state["stopped"] = message["id"]
                    if state["running"] == message["id"]:
                        language.interrupt()

    class Python:
        def __init__(self):
            self.module = types.ModuleType("__main__")
            self.names = self.module.__dict__
            self.names["__builtins__"] = builtins
            _sys.modules["__main__"] = self.module
            self.loop = None

            def input(prompt=""):
                raise EOFError("input() has nobody to ask in a session: put the value into the code")

            builtins.input = input

        def interrupt(self):
            signal.pthread_kill(main_thread, signal.SIGINT)

        def run(self, number, code):
            # `ast.parse` is this call of the compiler; its module would add its own imports to the first cell.
            import _ast, linecache
            name = "<cell %d>" % number
            linecache.cache[name] = (len(code), None, code.splitlines(True), name)
            try:
                tree = compile(code, name, "exec", _ast.PyCF_ONLY_AST)
                last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
                value = None
                if tree.body:
                    self.execute(compile(tree, name, "exec", _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
                if last is not None:
                    whole = _ast.Expression(last.value)
                    value = self.execute(compile(whole, name, "eval", _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
                answer = {"status": "ok"}
                if value is not None:
                    self.names["_"] = value
                    answer.update(self.shown(value))
            except BaseException as error:
                answer = self.failed(error)
            figures = self.figures()
            if figures:
                answer["images"] = (answer.get("images", []) + figures)[:MAX_IMAGES]
            return answer

        def execute(self, code):
            result = eval(code, self.names)
            if code.co_flags & 0x80:
                import asyncio
                if self.loop is None:
                    self.loop = asyncio.new_event_loop()
                return self.loop.run_until_complete(result)
            return result

        def shown(self, value):
            module = _sys.modules.get("PIL.Image")
            if module is not None and isinstance(value, module.Image):
                import io
                out = io.BytesIO()
                value.save(out, "PNG")
                return {"value": bounded(repr(value)), "images": self.encoded([out.getvalue()])}
            answer, kind = {}, type(value)
            is_table = kind.__module__.split(".")[0] in ("pandas", "polars")
            if is_table and hasattr(value, "to_string"):
                answer["value"] = bounded(value.to_string(max_rows=40))
            else:
                answer["value"] = bounded(repr(value))
            try:
                answer.update(self.forms(value, kind, is_table, answer["value"]))
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                _sys.stderr.write("a form of the value was not made: %r\n" % error)
            return answer

        def forms(self, value, kind, is_table, text):
            """Other forms of a value: a table as CSV, markup and data as files, a figure as a picture."""
            data, images = [], []
            if is_table:
                few = value.head(20000) if hasattr(value, "head") else value
                write = getattr(few, "to_csv", None) or getattr(few, "write_csv", None)
                if write is not None:
                    data.append(["csv", write()])
            elif kind in (dict, list) and len(text) > 2000:
                data.append(["json", json.dumps(value, ensure_ascii=False)])
            elif kind.__module__.split(".")[0] == "plotly" and hasattr(value, "to_image"):
                try:
                    images.append(value.to_image(format="png"))
                except BaseException:
                    # Without a renderer.
                    data.append(["json", value.to_json()])
            else:
                for form, name in (("svg", "_repr_svg_"), ("html", "_repr_html_"), ("png", "_repr_png_")):
                    make = getattr(kind, name, None)
                    made = make(value) if callable(make) else None
                    if form == "png" and isinstance(made, bytes):
                        images.append(made)
                    elif form != "png" and isinstance(made, str):
                        data.append([form, made])
            data = [[form, made] for form, made in data if len(made.encode("utf-8", "surrogatepass")) <= MAX_DATA]
            return {"data": data, "images": self.encoded(images)}

        def encoded(self, pictures):
            import base64
            return [base64.b64encode(p).decode() for p in pictures if len(p) <= MAX_IMAGE_BYTES]

        def figures(self):
            plot = _sys.modules.get("matplotlib.pyplot")
            if plot is None or not plot.get_fignums():
                return []
            import io
            pictures = []
            try:
                for number in plot.get_fignums()[:MAX_IMAGES]:
                    out = io.BytesIO()
                    plot.figure(number).savefig(out, format="png")
                    pictures.append(out.getvalue())
                plot.close("all")
            except BaseException as error:
                _sys.stderr.write("a figure was not drawn: %r\n" % error)
            return self.encoded(pictures)

        def failed(self, error):
            import traceback
            trace = error.__traceback__
            while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell "):
                trace = trace.tb_next
            told = traceback.TracebackException(type(error), error, trace)
            ours = ("input", "interrupted")
            told.stack[:] = [f for f in told.stack if f.filename != "<string>" or f.name not in ours]
            text = "".join(told.format())
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
            if isinstance(error, SystemExit):
                text += "exit() ends the cell; the session goes on\n"
            return {"status": status, "error": bounded(text)}

    MAX_ROWS, MAX_FILE_ROWS = 100, 20000

    class Table:
        """Rows of a query: the first as text, and where there are more, as many as fit as CSV."""

        def __init__(self, names):
            import csv, io
            self.names, self.rows, self.count, self.more = names, [], 0, None
            self.file = io.StringIO()
            self.csv = csv.writer(self.file)
            self.csv.writerow(names)

        def takes(self):
            return self.count < MAX_FILE_ROWS and self.file.tell() <= MAX_DATA

        def add(self, row):
            self.count += 1
            if len(self.rows) < MAX_ROWS:
                self.rows.append(["NULL" if value is None else str(value)[:200] for value in row])
            self.csv.writerow(row)

        def skip(self):
            self.count += 1

        def answer(self):
            lines = [self.names] + self.rows
            widths = [max(len(x) for x in column) for column in zip(*lines)]
            text = ["  ".join(x.ljust(w) for x, w in zip(row, widths)).rstrip() for row in lines]
            answer = {"kind": "table"}
            if self.count > MAX_ROWS:
                text.append("[... %s ...]" % (self.more or "%d more rows" % (self.count - MAX_ROWS)))
                made = self.file.getvalue()
                if len(made.encode("utf-8", "surrogatepass")) <= MAX_DATA:
                    answer["data"] = [["csv", made]]
            answer["value"] = bounded("\n".join(text))
            return answer

    class Sql:
        def __init__(self):
            import sqlite3
            self.library = sqlite3
            self.base = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)

        def interrupt(self):
            self.base.interrupt()

        def run(self, number, code):
            answer, statement = {"status": "ok"}, ""
            try:
                for piece in code.split(";"):
                    statement += piece + ";"
                    if not statement.strip(" \t\r\n;"):
                        statement = ""
                        continue
                    if not self.library.complete_statement(statement):
                        continue
                    cursor = self.base.execute(statement)
                    statement = ""
                    if cursor.description:
                        table = Table([column[0] for column in cursor.description])
                        # A query may have rows without end.
                        while table.takes():
                            row = cursor.fetchone()
                            if row is None:
                                break
                            table.add(row)
                        else:
                            table.more = "more rows"
                        answer = dict(table.answer(), status="ok")
                if statement.strip(" \t\r\n;"):
                    self.base.execute(statement)
            except self.library.Error as error:
                stopped = str(error) == "interrupted"
                answer = {"status": "interrupted" if stopped else "error", "error": "%s: %s\n" % (type(error).__name__, error)}
            except BaseException as error:
                answer = {"status": "error", "error": "%s: %s\n" % (type(error).__name__, error)}
            return answer

    class Bash:
        LOOP = (
            "while IFS= read -r -u 698 hotcell_cell; do trap 'return 130 2>/dev/null' INT; . \"$hotcell_cell\" 698>&- 699>&-; printf '%s\\n' \"$?\" >&699; done\n"
        )

        def __init__(self):
            self.start()

        def start(self):
            import subprocess
            (near, self.cells), (self.results, far) = os.pipe(), os.pipe()
            for fd, number in ((near, 698), (far, 699)):
                os.dup2(fd, number)
                os.close(fd)
            # A group of its own, which an interrupt goes to.
            self.shell = subprocess.Popen(
                ["bash", "-c", self.LOOP, "bash"], stdin=subprocess.DEVNULL, pass_fds=(698, 699), start_new_session=True
            )
            os.close(698)
            os.close(699)

        def interrupt(self):
            os.killpg(self.shell.pid, signal.SIGINT)

        def run(self, number, code):
            path = "/tmp/.cell-%d" % number
            with open(path, "w", encoding="utf-8", errors="surrogatepass") as cell:
                cell.write(code + "\n")
            try:
                os.write(self.cells, path.encode() + b"\n")
                said = b""
                while not said.endswith(b"\n"):
                    piece = os.read(self.results, 64)
                    if not piece:
                        status = self.shell.wait()
                        os.close(self.cells)
                        os.close(self.results)
                        self.start()
                        return {"status": "error", "error": "the shell ended with %d; a new one began, without its variables\n" % status, "lost": True}
                    said += piece
            finally:
                os.unlink(path)
            code = int(said.split()[-1])
            if code == 0:
                return {"status": "ok"}
            return {"status": "interrupted" if code == 130 else "error", "error": "exit status %d\n" % code}

    def postgresql():
        names = {"__name__": "postgresql"}
        exec(compile(more, "<postgresql>", "exec"), names)
        return names["PostgreSql"](bounded, Table)

    language = {"python": Python, "sql": Sql, "bash": Bash, "postgresql": postgresql}[kind]()
    threading.Thread(target=read, daemon=True).start()
    send({"op": "ready"})
    if kind == "python":
        # Modules of each cell: imported while the caller gets its answer, so that the first cell does not wait for them.
        import _ast, linecache
    while True:
        try:
            cell = cells.get()
        except KeyboardInterrupt:
            continue
        if cell["op"] != "cell":
            try:
                answer = file_answer(cell)
                answer["nonce"] = cell["nonce"]
                send(answer)
            except BaseException:
                os._exit(0)
            continue
        try:
            state["running"] = cell["id"]
            if state["stopped"] == cell["id"]:
                state["running"] = None
                answer = {"status": "interrupted", "error": "KeyboardInterrupt\n"}
            else:
                answer = language.run(cell["id"], cell["code"])
        except KeyboardInterrupt:
            answer = {"status": "interrupted", "error": "KeyboardInterrupt\n"}
        except BaseException as error:
            answer = {"status": "error", "error": "%s: %s\n" % (type(error).__name__, error)}
        finally:
            state["running"] = None
        # A process that a cell forked, and that came out of it.
        if os.getpid() != me:
            os._exit(0)
        try:
            answer["files"] = listed(cell["list"])
        except BaseException:
            pass
        answer["nonce"] = cell["nonce"]
        mark = cell["mark"].encode()
        for stream, fd in zip((_sys.stdout, _sys.stderr), ends):
            try:
                stream.flush()
            except BaseException:
                pass
            try:
                os.write(fd, mark)
            except OSError:
                pass
        try:
            send(answer)
        except (OSError, ValueError, TypeError):
            os._exit(0)


_main()
