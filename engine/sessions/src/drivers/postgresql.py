"""Cells of PostgreSQL: a server of the session's own in a folder of the sandbox, reached over a Unix socket by libpq."""
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

CONNECTION_OK, CONNECTION_BAD = 0, 1
COMMAND_OK, TUPLES_OK, COPY_OUT, COPY_IN, BAD_RESPONSE, FATAL_ERROR, COPY_BOTH, SINGLE_TUPLE = 1, 2, 3, 4, 5, 7, 8, 9
QUERY_CANCELED = "57014"
START_SECONDS = 25


def leave(why):
    sys.stderr.write(why + "\n")
    sys.stderr.flush()
    os._exit(2)


def programs():
    """The folder of the server's programs: Debian's newest, or that of the initdb on the path."""
    def version(path):
        return [int(number) for number in re.findall(r"\d+", path)]

    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=version)
    known = found[-1] if found else shutil.which("initdb")
    folder = os.path.dirname(os.path.realpath(known)) if known else ""
    if not folder or not os.access(os.path.join(folder, "postgres"), os.X_OK):
        leave("PostgreSQL is not installed: on Debian, apt-get install postgresql")
    return folder


def library():
    try:
        libpq = ctypes.CDLL("libpq.so.5")
    except OSError:
        leave("PostgreSQL's client library libpq.so.5 is not installed: on Debian, apt-get install libpq5")
    text, handle, number = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int
    for name, result, arguments in (
        ("PQconnectdb", handle, [text]),
        ("PQstatus", number, [handle]),
        ("PQerrorMessage", text, [handle]),
        ("PQfinish", None, [handle]),
        ("PQgetCancel", handle, [handle]),
        ("PQfreeCancel", None, [handle]),
        ("PQcancel", number, [handle, text, number]),
        ("PQsendQuery", number, [handle, text]),
        ("PQsetSingleRowMode", number, [handle]),
        ("PQgetResult", handle, [handle]),
        ("PQresultStatus", number, [handle]),
        ("PQresultErrorMessage", text, [handle]),
        ("PQresultErrorField", text, [handle, number]),
        ("PQcmdStatus", text, [handle]),
        ("PQclear", None, [handle]),
        ("PQnfields", number, [handle]),
        ("PQntuples", number, [handle]),
        ("PQfname", text, [handle, number]),
        ("PQgetisnull", number, [handle, number, number]),
        ("PQgetvalue", text, [handle, number, number]),
        ("PQgetCopyData", number, [handle, ctypes.POINTER(handle), number]),
        ("PQputCopyEnd", number, [handle, text]),
        ("PQfreemem", None, [handle]),
    ):
        function = getattr(libpq, name)
        function.restype, function.argtypes = result, arguments
    return libpq


class PostgreSql:
    def __init__(self, bounded, table):
        self.bounded, self.table = bounded, table
        # libpq would take where to connect to from there.
        for name in [name for name in os.environ if name.startswith("PG")]:
            del os.environ[name]
        self.bin, self.libpq = programs(), library()
        self.lock, self.busy, self.stopped = threading.Lock(), False, False
        self.folder = tempfile.mkdtemp(prefix="pg-", dir="/tmp")
        self.data, self.log = os.path.join(self.folder, "db"), os.path.join(self.folder, "log")
        made = subprocess.run(
            [self.bin + "/initdb", "-A", "trust", "-U", "sandbox", "-E", "UTF8", "--no-locale", "--no-sync", "--wal-segsize=1", "-D", self.data],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        if made.returncode != 0:
            leave("PostgreSQL made no database: " + made.stdout.decode(errors="replace")[-300:])
        self.server = self.connection = self.cancel = None
        self.connect()

    def launch(self):
        settings = ["max_connections=10", "shared_buffers=16MB", "min_wal_size=2MB", "max_wal_size=32MB", "wal_level=minimal", "max_wal_senders=0"]
        words = [self.bin + "/postgres", "-D", self.data, "-k", self.folder, "-h", "", "-F"]
        for setting in settings:
            words += ["-c", setting]
        with open(self.log, "ab") as log:
            # A group of its own, so that no interrupt of a terminal reaches it.
            self.server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def connect(self):
        """A new connection, to a new server where the last one ended."""
        libpq, end = self.libpq, time.monotonic() + START_SECONDS
        with self.lock:
            if self.cancel:
                libpq.PQfreeCancel(self.cancel)
            if self.connection:
                libpq.PQfinish(self.connection)
            self.connection = self.cancel = None
        if self.server is None or self.server.poll() is not None:
            self.launch()
        where = "host='%s' user=sandbox dbname=postgres client_encoding=UTF8 connect_timeout=5" % self.folder
        while True:
            connection = libpq.PQconnectdb(where.encode())
            if libpq.PQstatus(connection) == CONNECTION_OK:
                break
            why = (libpq.PQerrorMessage(connection) or b"").decode(errors="replace")
            libpq.PQfinish(connection)
            if self.server.poll() is not None or time.monotonic() > end:
                with open(self.log, "rb") as log:
                    said = log.read()[-300:].decode(errors="replace")
                leave("PostgreSQL's server is not there: %s %s" % (why.strip(), said.strip()))
            time.sleep(0.01)
        with self.lock:
            self.connection, self.cancel = connection, libpq.PQgetCancel(connection)

    def interrupt(self):
        # Again until the cell has ended: the server forgets a cancellation that comes before the statement.
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            with self.lock:
                if not self.busy or not self.cancel:
                    return
                self.stopped = True
                self.libpq.PQcancel(self.cancel, ctypes.create_string_buffer(256), 256)
            time.sleep(0.02)

    def run(self, number, code):
        if "\0" in code:
            return {"status": "error", "error": "ERROR:  a statement cannot hold a NUL character\n"}
        with self.lock:
            self.busy, self.stopped = True, False
        try:
            answer = self.execute(code)
        finally:
            with self.lock:
                self.busy = False
        if self.libpq.PQstatus(self.connection) == CONNECTION_BAD:
            self.connect()
            told = answer.get("error", "")
            answer = {"status": "error", "lost": True}
            answer["error"] = told + "the connection ended; a new one began, without open transactions, settings and temporary tables\n"
        return answer

    def execute(self, code):
        libpq, connection = self.libpq, self.connection
        if not libpq.PQsendQuery(connection, code.encode("utf-8", "surrogatepass")):
            return {"status": "error", "error": self.said(libpq.PQerrorMessage(connection))}
        libpq.PQsetSingleRowMode(connection)
        answer, table, failed = {"status": "ok"}, None, None
        while True:
            result = libpq.PQgetResult(connection)
            if not result:
                break
            try:
                status = libpq.PQresultStatus(result)
                if status in (SINGLE_TUPLE, TUPLES_OK):
                    if table is None:
                        table = self.table([self.text(libpq.PQfname(result, at)) for at in range(libpq.PQnfields(result))])
                    for row in range(libpq.PQntuples(result)):
                        if table.takes():
                            table.add([self.value(result, row, at) for at in range(libpq.PQnfields(result))])
                        else:
                            table.skip()
                    if status == TUPLES_OK:
                        answer, table = dict(table.answer(), status="ok"), None
                elif status == COMMAND_OK:
                    answer = answer if "kind" in answer else {"status": "ok", "value": self.text(libpq.PQcmdStatus(result))}
                elif status == COPY_OUT:
                    self.copy_out()
                elif status == COPY_IN:
                    libpq.PQputCopyEnd(connection, b"there is no data in a session: use INSERT, or put a file there and COPY from its path")
                elif status == COPY_BOTH:
                    libpq.PQfinish(connection)
                    leave("a cell asked for replication, which a session does not have")
                elif status in (FATAL_ERROR, BAD_RESPONSE):
                    failed = self.said(libpq.PQresultErrorMessage(result)) or "ERROR:  the server gave no reason\n"
                    canceled = self.text(libpq.PQresultErrorField(result, ord("C"))) == QUERY_CANCELED
                    answer = {"status": "interrupted" if canceled and self.stopped else "error"}
            finally:
                libpq.PQclear(result)
        if failed is not None:
            answer["error"] = self.bounded(failed)
        return answer

    def copy_out(self):
        libpq, piece = self.libpq, ctypes.c_void_p()
        while True:
            size = libpq.PQgetCopyData(self.connection, ctypes.byref(piece), 0)
            if size < 0:
                break
            data = ctypes.string_at(piece, size)
            libpq.PQfreemem(piece)
            sys.stdout.flush()
            while data:
                data = data[os.write(1, data):]

    def value(self, result, row, column):
        if self.libpq.PQgetisnull(result, row, column):
            return None
        return self.text(self.libpq.PQgetvalue(result, row, column))

    def text(self, data):
        return (data or b"").decode("utf-8", "replace")

    def said(self, data):
        return self.text(data)
