

class _Heard:
    """What a test prints through Python's streams, which stay the objects that they are: only `write` is listened to.

    What goes around them (a file descriptor, another process, `sys.stdout.buffer`) is in the run's output alone.
    """

    MOST = 20000  # characters of a stream that are kept, half of them from its end

    def __init__(self):
        self.now, self.paused, self.undo = None, False, []

    def pause(self, paused):
        self.paused = paused

    def begin(self):
        now = self.now = {"stdout": ["", "", 0], "stderr": ["", "", 0]}
        for name in now:
            self._listen(getattr(sys, name, None), name, now)

    def _listen(self, stream, name, now):
        try:
            write, half = stream.write, self.MOST // 2

            def told(text):
                written = write(text)
                # A program may keep this function for longer than the test.
                if self.now is now and not self.paused and isinstance(text, str):
                    kept = now[name]
                    kept[2] += len(text)
                    room = half - len(kept[0])
                    if room > 0:
                        kept[0], text = kept[0] + text[:room], text[room:]
                    if text:
                        kept[1] = (kept[1] + text)[-half:]
                return written

            stream.write = told
            self.undo.append((stream, told))
        except Exception:
            pass

    def end(self):
        """The texts by stream."""
        now, self.now = self.now, None
        for stream, told in reversed(self.undo):
            try:
                # A test that replaced it itself has to undo that itself.
                if stream.__dict__.get("write") is told:
                    del stream.write
            except Exception:
                pass
        self.undo = []
        heard = {}
        for name, (head, tail, count) in (now or {}).items():
            left_out = count - len(head) - len(tail)
            gap = "\n... %d characters left out ...\n" % left_out if left_out else ""
            heard[name] = head + gap + tail
        return heard


def _result_class(unittest, emit, clip, top):
    """unittest's own result, which also passes on what it is told."""
    import functools
    import inspect
    import itertools
    import re
    import time
    import traceback
    import types

    clock, inside = time.perf_counter, _inside
    written = re.compile(r'^ +File "([^"]+)", line (\d+)', re.M)
    worse = {"passed": 0, "skipped": 1, "failed": 2, "errored": 3}

    def name_of(test):
        """What -k finds again, and whether it is a test."""
        if isinstance(test, unittest.suite._ErrorHolder):
            # "setUpClass (module.Class)"
            return test.description.split("(", 1)[-1].rstrip(")"), False
        if isinstance(test, unittest.loader._FailedTest):
            return test._testMethodName, True
        test = getattr(test, "test_case", test)
        return test.id(), True

    def place_of(test):
        """File and line of the test's own code."""
        try:
            function = getattr(test, test._testMethodName)
            code = getattr(function, "__wrapped__", function).__code__
            path = inside(code.co_filename, top)
            return (None, None) if path is None else (path, code.co_firstlineno)
        except Exception:
            return None, None

    def crash_of(test, err):
        """Message, and the last place in the project."""
        kind, value, frames = err
        message = "".join(traceback.format_exception_only(kind, value)).strip()
        places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(frames)]
        if isinstance(value, SyntaxError) and value.filename:
            places.append((value.filename, value.lineno))
        if isinstance(test, unittest.loader._FailedTest):
            # What went wrong is only there as text.
            places += [(path, int(line)) for path, line in written.findall(message)]
            lines = message.splitlines()
            message = lines[0] + (": " + lines[-1] if len(lines) > 1 else "")
        for path, line in reversed(places):
            path = inside(path, top)
            if path is not None and isinstance(line, int):
                return clip(message, 1000), path, line
        return clip(message, 1000), None, None

    def is_unstarted(made):
        """Whether a test gave back code that still waits to be run."""
        if inspect.iscoroutine(made):
            return inspect.getcoroutinestate(made) == inspect.CORO_CREATED
        if inspect.isgenerator(made):
            return inspect.getgeneratorstate(made) == inspect.GEN_CREATED
        return inspect.isasyncgen(made)  # unittest iterates none

    def left_out(function):
        """A function whose frames unittest leaves out of tracebacks, as its own."""
        names = {"__unittest": True, "__builtins__": __builtins__}
        return types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)

    def looked_at(call, runs_coroutines):
        """unittest's function that calls a test, which takes a coroutine or a generator for passed."""

        @left_out
        def _callTestMethod(self, method):
            self.hotcell_raised = None
            if runs_coroutines and inspect.iscoroutinefunction(method):
                try:
                    return call(self, method)
                except BaseException as error:
                    self.hotcell_raised = type(error).__name__
                    raise
            # Called by C code alone: a frame of this file in the middle would hide the test's own ones.
            result, seen = itertools.tee(itertools.starmap(method, [()]))
            try:
                ended = call(self, functools.partial(next, result))
            except BaseException as error:
                self.hotcell_raised = type(error).__name__
                raise
            made = next(seen, None)
            if is_unstarted(made):
                self.hotcell_never_ran = True
                if inspect.iscoroutine(made):
                    made.close()  # no warning of Python's beside the error
            return ended

        return _callTestMethod

    def look_at(kind, runs_coroutines):
        """Only unittest's own classes: one of a framework that replaces the function runs its tests as it likes."""
        call = vars(kind).get("_callTestMethod")
        if call is not None and not hasattr(call, "hotcell"):
            kind._callTestMethod = looked_at(call, runs_coroutines)
            kind._callTestMethod.hotcell = True

    def look_at_asyncio():
        # Its module takes time to load, and is there when a test needs it.
        loaded = sys.modules.get("unittest.async_case")
        if loaded is not None:
            look_at(loaded.IsolatedAsyncioTestCase, True)

    look_at(unittest.TestCase, False)

    def quietly(tell, *args):
        """unittest's own words about a result are not the test's output."""
        Result.hotcell_heard.pause(True)
        try:
            tell(*args)
        finally:
            Result.hotcell_heard.pause(False)

    class Result(unittest.TextTestResult):
        hotcell_heard = _Heard()
        hotcell_cases = []
        hotcell_room = [24 << 20]  # characters of details that the report may have
        hotcell_now = None
        hotcell_waiting = {}  # tests that have not started, each with its class and its module

        @staticmethod
        def hotcell_collect(tests):
            for test in tests:
                if hasattr(test, "__iter__"):
                    Result.hotcell_collect(test)
                else:
                    kind = type(test)
                    of_class = "%s.%s" % (kind.__module__, kind.__qualname__)
                    Result.hotcell_waiting[name_of(test)[0]] = (of_class, kind.__module__)

        def startTest(self, test):
            super().startTest(test)
            look_at_asyncio()
            try:
                key, _ = name_of(test)
                path, line = place_of(test)
                self.hotcell_now = {"id": clip(key, 8000), "file": path, "line": line, "status": "passed"}
                emit("start", id=self.hotcell_now["id"], file=path, line=line)
                self.hotcell_since = clock()
                self.hotcell_waiting.pop(key, None)
                if not self.buffer:
                    # With -b unittest has the output itself, and adds it to the details.
                    self.hotcell_heard.begin()
            except Exception:
                pass

        def stopTest(self, test):
            if (self.hotcell_now or {}).get("status") == "passed" and getattr(test, "hotcell_never_ran", False):
                error = TypeError("it is a coroutine or a generator, and %s does not run these" % type(test).__name__)
                self.addError(test, (TypeError, error, None))
            raised = getattr(test, "hotcell_raised", None)
            if (self.hotcell_now or {}).get("status") == "passed" and raised is not None:
                error = AssertionError("it raised %s, and nothing reported that" % raised)
                self.addFailure(test, (AssertionError, error, None))
            try:
                now, self.hotcell_now = self.hotcell_now, None
                heard = self.hotcell_heard.end()
                if now is not None and now["status"] == "passed" and isinstance(sys.exc_info()[1], KeyboardInterrupt):
                    now = None  # unittest ends in the middle of it
                if now is not None:
                    if now["status"] in ("failed", "errored"):
                        for name, text in heard.items():
                            if text and self.hotcell_room[0] > 0:
                                self.hotcell_room[0] -= len(text)
                                now[name] = text
                    now["ms"] = round((clock() - self.hotcell_since) * 1000.0, 3)
                    self.hotcell_close("end", now)
            except Exception:
                pass
            super().stopTest(test)

        def hotcell_close(self, event, case):
            emit(event, **{k: v for k, v in case.items() if k not in ("details", "stdout", "stderr")})
            self.hotcell_cases.append({k: _clean(v) for k, v in case.items()})

        def hotcell_tell(self, test, status, err=None, message=None, prefix=""):
            try:
                key, is_test = name_of(test)
                now = self.hotcell_now
                alone = now is None or not is_test
                if alone:
                    # A class or module whose tests do not run.
                    hides = sum(key in of for of in self.hotcell_waiting.values())
                    now = {"id": clip(key, 8000), "status": "passed", "ms": 0.0, "hides": hides}
                if worse[status] > worse[now["status"]]:
                    now["status"] = status
                    if err is not None:
                        text, now["at_file"], now["at_line"] = crash_of(test, err)
                        now["message"] = clip(prefix + text, 1000)
                    elif message is not None:
                        now["message"] = clip(message, 1000)
                if err is not None and self.hotcell_room[0] > 0:
                    details = clip(self._exc_info_to_string(err, test), 60000)
                    self.hotcell_room[0] -= len(details)
                    now["details"] = clip(now.get("details", "") + prefix + details, 60000)
                if alone:
                    self.hotcell_close("group", now)
            except Exception:
                pass

        def addError(self, test, err):
            quietly(super().addError, test, err)
            self.hotcell_tell(test, "errored", err)

        def addFailure(self, test, err):
            quietly(super().addFailure, test, err)
            self.hotcell_tell(test, "failed", err)

        def addSkip(self, test, reason):
            quietly(super().addSkip, test, reason)
            self.hotcell_tell(test, "skipped", message=reason)

        def addExpectedFailure(self, test, err):
            quietly(super().addExpectedFailure, test, err)
            self.hotcell_tell(test, "skipped", message="expected failure")

        def addUnexpectedSuccess(self, test):
            quietly(super().addUnexpectedSuccess, test)
            self.hotcell_tell(test, "failed", message="unexpected success")

        def addSubTest(self, test, subtest, err):
            quietly(super().addSubTest, test, subtest, err)
            if err is not None:
                kind = "failed" if issubclass(err[0], test.failureException) else "errored"
                self.hotcell_tell(test, kind, err, prefix=subtest._subDescription() + " ")

    return Result


def _listen_to_threads():
    """A list that gets the errors that end threads, of which unittest knows nothing."""
    import threading
    import traceback

    ended, format_only = [], traceback.format_exception_only
    theirs = getattr(threading, "excepthook", None)
    if theirs is None:
        return ended  # before Python 3.8

    def told(args):
        try:
            if args.exc_type is not SystemExit and len(ended) < 100:
                ended.append("".join(format_only(args.exc_type, args.exc_value)).strip())
        finally:
            theirs(args)

    threading.excepthook = told
    return ended


def _announce_files(unittest, emit, clip):
    """Has the loader say which file it loads: what that loads may end the process."""
    theirs = getattr(unittest.TestLoader, "_get_module_from_name", None)
    if theirs is None:
        return

    def _get_module_from_name(self, name):
        top = getattr(self, "_top_level_dir", None) or os.getcwd()
        path = _inside(os.path.join(top, *name.split(".")) + ".py", _TOP)
        if path is not None:
            emit("at", id=clip(path, 8000), file=clip(path, 8000))
        try:
            return theirs(self, name)
        finally:
            emit("at")

    unittest.TestLoader._get_module_from_name = _get_module_from_name


def _become_manager(script):
    """The command line of `manage.py test`, whose folder comes first on the path."""
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path[0] = os.path.dirname(os.path.abspath(script)) if script else os.getcwd()
    sys.argv[0] = script or "django-admin"
    sys.argv[1:1] = ["test"] + _argument_words()


def _leave_only(unittest, suite, wanted):
    """Takes every other test out of a suite."""
    kept = []
    for test in suite._tests:
        if hasattr(test, "__iter__"):
            _leave_only(unittest, test, wanted)
            kept.append(test)
        # What cannot be loaded is no test that somebody else runs.
        elif isinstance(test, unittest.loader._FailedTest) or test.id() in wanted:
            kept.append(test)
    suite._tests = kept


def _without_others(unittest, suite, asked):
    """Where this id names tests that are there, takes out what cannot be loaded of other modules: nobody asked for it."""
    def all_of(tests):
        for test in tests:
            if hasattr(test, "__iter__"):
                yield from all_of(test)
            else:
                yield test

    def goes(suite):
        kept = []
        for test in suite._tests:
            if hasattr(test, "__iter__"):
                goes(test)
            elif isinstance(test, unittest.loader._FailedTest):
                name = test._testMethodName
                if not (asked + ".").startswith(name + ".") and not (name + ".").startswith(asked + "."):
                    continue
            kept.append(test)
        suite._tests = kept

    found = [test for test in all_of(suite) if not isinstance(test, unittest.loader._FailedTest)]
    if any((test.id() + ".").startswith(asked + ".") for test in found):
        goes(suite)


def _main():
    import functools
    import json
    import runpy

    cover, django = _own("--hotcell-cover="), _own("--hotcell-django=")
    only, listing, asked = _own("--hotcell-only="), _own("--hotcell-list="), _own("--hotcell-asked=")
    report, dumps, getpid = sys.argv.pop(1), json.dumps, os.getpid
    owner = getpid()
    if django is None:
        _become_module()
        sys.argv[1:1] = _argument_words()
    else:
        _become_manager(django)
    import unittest

    unittest_main = sys.modules["unittest.main"]
    measured = None
    if cover is not None:
        try:
            import coverage
        except ImportError:
            _emit("missing", what="coverage", **_runtime())
            sys.stderr.write("coverage is not installed for %s\n" % sys.executable)
            sys.exit(_MISSING)
        measured = coverage.Coverage(data_file=None)
        measured.start()
    if django is None:
        _emit("session", tool="unittest", version=None, **_runtime())
    else:
        try:
            import django as package
        except ImportError as error:
            if error.name != "django":
                raise
            _emit("missing", what="django", **_runtime())
            sys.stderr.write("django is not installed for %s\n" % sys.executable)
            sys.exit(_MISSING)
        _emit("session", tool="django", version=package.get_version(), **_runtime())
    result_class = _result_class(unittest, _emit, _clip, _cwd)
    _announce_files(unittest, _emit, _clip)
    modules, ended = set(), _listen_to_threads()

    class Runner(unittest.TextTestRunner):
        resultclass = result_class

        def __init__(self, *args, **kwargs):
            # Django's classes for results only print.
            kwargs.pop("resultclass", None)
            super().__init__(*args, **kwargs)

        def run(self, test):
            if only is not None:
                with open(only, encoding="utf-8") as file:
                    _leave_only(unittest, test, set(json.load(file)))
            elif asked is not None:
                _without_others(unittest, test, asked)
            result_class.hotcell_collect(test)
            modules.update(module for _, module in result_class.hotcell_waiting.values())
            if listing is not None:
                os.makedirs(os.path.dirname(listing), exist_ok=True)
                with open(listing, "w", encoding="utf-8", errors="replace") as file:
                    json.dump(list(result_class.hotcell_waiting), file)
                test = unittest.TestSuite()
                result_class.hotcell_waiting.clear()
            # Parts that run in processes of their own are not counted.
            if django is None or result_class.hotcell_waiting:
                _emit("collected", count=len(result_class.hotcell_waiting))
            result = super().run(test)
            self.__class__.whole = True
            self.__class__.stopped = "stopped at the first failure" if result.shouldStop else None
            return result

        stopped = None
        whole = False

    def notes():
        """Notes about a run that passes, which its result does not show."""
        all = [_counted(ended, "error ended a thread", "errors ended threads")]
        if only is None and asked is None:
            files = {getattr(sys.modules.get(name), "__file__", None) or "" for name in modules}
            all.append(_note_doubled(files))
        return [note for note in all if note]

    # unittest.__main__ takes this once. What tests import is another name, left as it is.
    theirs = unittest_main.main

    @functools.wraps(theirs, updated=())
    def main(*args, **kwargs):
        unittest_main.main = theirs
        return theirs(*args, testRunner=Runner, **kwargs)

    unittest_main.main = main
    if django is not None:
        # Its runner, and one of the project's that is made of that, takes this when it is imported.
        unittest.TextTestRunner = unittest.runner.TextTestRunner = Runner

    def tell_step(name, status, ms, message):
        case = {"id": _clip(name, 8000), "status": status, "ms": round(ms, 3), "message": message}
        _emit("group", **case)
        result_class.hotcell_cases.append({k: _clean(v) for k, v in case.items() if v is not None})

    try:
        if django is None:
            runpy.run_module("unittest", run_name="__main__", alter_sys=True)
        elif django:
            runpy.run_path(django, run_name="__main__")
        else:
            runpy.run_module("django", run_name="__main__", alter_sys=True)
        sys.exit(0)
    except SystemExit as ending:
        if getpid() != owner:
            raise
        code = _exit_code(ending)
        if listing is None and code in (0, 1, 5) and (Runner.whole or not code) and not _run_steps(tell_step):
            code = ending.code = _EXIT_OF_STEPS
        if code == 5 and _WORDS.get("steps"):
            code = ending.code = 0
        if measured is not None:
            measured.stop()
            try:
                os.makedirs(os.path.dirname(cover), exist_ok=True)
                measured.lcov_report(outfile=cover)
            except Exception as error:
                sys.stderr.write("hotcell: coverage cannot be written: %s\n" % error)
        try:
            if django is not None and not Runner.whole:
                # It did not come to its tests: what it printed says why.
                raise OSError("no test ran")
            os.makedirs(os.path.dirname(report), exist_ok=True)
            with open(report, "w", encoding="ascii") as file:
                for case in result_class.hotcell_cases:
                    file.write(dumps(dict(case, e="case")) + "\n")
                file.write(dumps({"e": "done", "count": len(result_class.hotcell_cases)}) + "\n")
        except Exception as error:
            sys.stderr.write("hotcell: the report cannot be written: %s\n" % error)
        # A test that ends the process, by its set-up or while it is loaded, is not the end of the tests.
        if Runner.whole or code:
            stopped = [Runner.stopped] if Runner.stopped else []
            _emit("finish", exit=code, stopped="; ".join(stopped + notes()) or None)
        raise


if __name__ == "__main__":
    _main()
