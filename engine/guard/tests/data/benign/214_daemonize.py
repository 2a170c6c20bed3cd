"""Classic double-fork daemon with start/stop/status."""
import atexit
import os
import signal
import sys
import time

PIDFILE = "/tmp/sampled.pid"
LOGFILE = "/tmp/sampled.log"


def read_pid():
    try:
        return int(open(PIDFILE).read())
    except (FileNotFoundError, ValueError):
        return None


def running(pid):
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def daemonize():
    if os.fork() > 0:
        sys.exit(0)
    os.setsid()
    os.umask(0o022)
    if os.fork() > 0:
        os._exit(0)
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(LOGFILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    with open(PIDFILE, "w") as f:
        f.write(str(os.getpid()))
    atexit.register(lambda: os.path.exists(PIDFILE) and os.remove(PIDFILE))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def work():
    while True:
        print(time.strftime("%F %T"), "load", os.getloadavg(), flush=True)
        time.sleep(10)


def main():
    action = sys.argv[1] if len(sys.argv) > 1 else ""
    pid = read_pid()
    if action == "start":
        if running(pid):
            sys.exit(f"already running as {pid}")
        daemonize()
        work()
    elif action == "stop":
        if not running(pid):
            sys.exit("not running")
        os.kill(pid, signal.SIGTERM)
        print("stopped")
    elif action == "status":
        print(f"running as {pid}" if running(pid) else "not running")
    else:
        sys.exit("usage: daemonize.py start|stop|status")


if __name__ == "__main__":
    main()
