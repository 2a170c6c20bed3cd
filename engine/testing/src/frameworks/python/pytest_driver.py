
import re

_PLUGIN = "hotcell_live"


def _plugin(pytest, emit, clip, top, part, cover):
    """What pytest tells its plugins, passed on. In workers of pytest-xdist nothing of this is loaded."""
    own = _codes_of.__code__.co_filename
    written = re.compile(r'^(?:E +File "|)([^\s":][^":]*)(?:", line |:)(\d+)(?=$|:|,)', re.M)
    inside = _inside
    worse = {"passed": 0, "skipped": 1, "failed": 2, "errored": 3}

    def status_of(report):
        if report.passed:
            return "passed"
        if report.skipped:
            return "skipped"
        if report.failed:
            return "failed" if report.when == "call" else "errored"
        return None  # a repetition: what counts comes later

    def places_in(longrepr):
        """Files and lines of a traceback, the innermost first."""
        chain = getattr(longrepr, "reprtraceback", None)
        entries = getattr(chain, "reprentries", [])
        found = [getattr(entry, "reprfileloc", None) for entry in entries]
        found = [(str(loc.path), loc.lineno) for loc in found if loc is not None]
        if not found:
            found = [(path, int(line)) for path, line in written.findall(str(longrepr)[-60000:])]
        return reversed(found)

    def crash_of(report):
        """Message, and the last place in the project."""
        longrepr = getattr(report, "longrepr", None)
        crash = getattr(longrepr, "reprcrash", None)
        if isinstance(longrepr, tuple) and len(longrepr) == 3:
            path, line, message = longrepr
            places = [(path, line)]
            # Its report of a test leaves this word out, too.
            if getattr(report, "skipped", False) and message.startswith("Skipped: "):
                message = message[len("Skipped: "):]
        else:
            places = list(places_in(longrepr))
            if crash is not None:
                message = crash.message
                places.insert(0, (str(crash.path), crash.lineno))
            else:
                lines = str(longrepr or "").strip().splitlines()
                errors = [line[1:] for line in lines if line.startswith("E ")]
                message = (errors or lines or [""])[-1].strip()
                if not errors and lines and lines[0].startswith("import file mismatch"):
                    message = "\n".join(lines)
                if lines and lines[0].startswith("Different tests were collected"):
                    # Of pytest-xdist: the tests that one process has and another does not.
                    differ = [line for line in lines[1:] if line[:1] in ("+", "-") and line[:3] not in ("+++", "---")]
                    message = " ".join([lines[0].split(" The difference")[0]] + differ[:20])
        for path, line in places:
            path = inside(path, top)
            if path is not None and isinstance(line, int):
                return clip(message, 1000), path, line
        return clip(message, 1000), None, None

    def label_of(report):
        """Name of a subtest, as pytest prints it; None for a test."""
        context = getattr(report, "context", None)
        if context is None or not hasattr(context, "kwargs"):
            return None
        try:
            name = getattr(report, "_sub_test_description", None) or report.sub_test_description
            return clip(name(), 300)
        except Exception:
            return "(subtest)"

    def threshold_of(config):
        """The settings of pytest-cov that hold the project's threshold, and that; None without."""
        plugin = config.pluginmanager.getplugin("_cov")
        options = getattr(plugin, "options", None)
        under = getattr(options, "cov_fail_under", None)
        return (plugin, options, under) if isinstance(under, (int, float)) and under > 0 else None

    def forget_in_xml(report):
        """Takes failures of subtests out of the final report of a try that does not count."""
        try:
            from _pytest.junitxml import xml_key

            xml = config_of[0].stash[xml_key]
            reporter = xml.node_reporter(report)
            for tag in ("failure", "error"):
                nodes = [node for node in reporter.nodes if node.tag == tag]
                xml.stats[tag] -= len(nodes)
                reporter.nodes = [node for node in reporter.nodes if node.tag != tag]
        except Exception:
            pass  # then the final report contradicts what is told here, and the run is no result

    LONGEST = 4000  # bytes of an id: what is longer, as by a parameter that is a whole text, gets a digest in its middle
    begin, end = _make_watch()
    codes_of = _codes_of
    of_python = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
    of_pytest = tuple(os.path.dirname(os.path.abspath(sys.modules[name].__file__)) + os.sep for name in ("pytest", "_pytest"))
    UNSEEN = ""  # nothing says that it ran, and nothing of the project's ran in its place

    def changed(known):
        """Code that a tool gave a function after it was found, in the same place."""
        places = [(code.co_filename, code.co_firstlineno) for code in known[2]]
        return [code for code in codes_of(known[1])
                if code not in known[2] and (code.co_filename, code.co_firstlineno) in places]

    def stand_in(item, known):
        """What ran in place of a test's function, as a message; `UNSEEN` for a plugin that is installed."""
        try:
            case = getattr(item.parent, "obj", None)
            of_case = isinstance(case, type) and hasattr(case, "_callTestMethod")
            names = ("pytest_runtest_call",) if of_case else ("pytest_runtest_call", "pytest_pyfunc_call")
            hooks = [one.function for name in names for one in getattr(item.ihook, name).get_hookimpls()]
            runs = [type(item).runtest] + [getattr(case, name) for name in ("run", "__call__", "_callTestMethod") if of_case]
            codes = [code for one in [item.obj] + runs + hooks for code in codes_of(one)[:1] if code not in known[2]]
            plugin = False
            for code in codes:
                path = inside(code.co_filename, top)
                if path is not None and code.co_filename != own:
                    name = clip(code.co_name, 100)
                    return "its function did not run: %s in %s:%d ran in its place" % (name, clip(path, 300), code.co_firstlineno)
                file = os.path.abspath(code.co_filename)
                of_python_alone = file.startswith(of_python) and "site-packages" not in file
                plugin = plugin or not of_python_alone and not file.startswith(of_pytest) and code.co_filename != own
            if plugin:
                return UNSEEN
        except Exception:
            pass  # what it looks at may be the project's own
        return "its function did not run, although pytest says that it passed"

    forks = [0]

    def forked():
        forks[0] += 1

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_parent=forked)
    try:
        from resource import RUSAGE_CHILDREN, getrusage
    except ImportError:
        getrusage = None

    def children():
        """Changes when this process makes a child by a fork, or has waited for one."""
        return forks[0], getrusage(RUSAGE_CHILDREN).ru_minflt if getrusage is not None else 0

    def of_project(hooks):
        """The first of these functions that is the project's own, as `NAME in FILE:LINE`; None without."""
        for one in hooks:
            for code in codes_of(one.function)[:1]:
                path = inside(code.co_filename, top)
                if path is not None and code.co_filename != own:
                    return "%s in %s:%d" % (clip(code.co_name, 100), clip(path, 300), code.co_firstlineno)
        return None

    def uncalled(config, since):
        """What reported a test as passed that pytest did not call, as a message; `UNSEEN` where a child process may have run it."""
        if children() != since:
            return UNSEEN
        try:
            hook = config.hook
            place = of_project([one for name in ("pytest_runtest_protocol", "pytest_runtestloop")
                                for one in getattr(hook, name).get_hookimpls() if not one.hookwrapper])
            if place is not None:
                return "its function did not run: %s reported it in its place" % place
        except Exception:
            pass  # what it looks at may be the project's own
        return "its function did not run, and something reported that it passed"

    def runs_elsewhere(config):
        """True where workers of pytest-xdist run the tests."""
        plugin = config.pluginmanager.getplugin("dsession")
        return type(plugin).__module__ == "xdist.dsession"

    # Warnings about tests that pytest does not run, or does not check: what ends a thread, ends no test.
    unheeded = ("PytestCollectionWarning", "PytestReturnNotNoneWarning", "PytestUnhandledThreadExceptionWarning")
    config_of = []

    class Plugin(object):
        def __init__(self):
            self.open = {}
            self.stopped = None
            self.ended_by = None  # what ended the whole run before its time
            self.whole = False  # pytest came to its own end
            self.loading = None  # the file that was loaded when something ended the run
            self.raised = {}  # what a test or a file raised, before other plugins had a word in it
            self.called = set()  # tests that were called, not only set up
            self.uncalled = set()  # tests that ended without that, as by `--setup-only` in a project's settings
            self.made = {}  # classes of the project's own that make tests of a Python file, with the number of these
            self.hooked = set()  # tests that pytest called, whatever came of that
            self.since = None  # the children of this process when all tests were found
            self.again = set()  # tests that are repeated
            self.found = set()  # tests that were found, also those that will be left out
            self.late = []  # tests that passed at a later attempt
            self.empty = []  # tests whose parameters are an empty list
            self.expected = set()  # tests that are marked to fail when they are found
            self.marked = set()  # tests that a hook marks to fail later
            self.all = None  # number of tests that will run
            self.files = set()  # files of tests
            self.excused = []  # tests of these that failed
            self.warned = []  # what pytest says of tests that it does not run, or does not check
            self.codes = {}  # of each item: the item, its function, and the code of that when it was found
            self.unrun = {}  # tests whose function did not run when they were called, and what ran in its place
            self.unseen = []  # tests that passed although nothing saw their function run

        def told(self, report):
            status = status_of(report)
            one = self.open.get(report.nodeid)
            raised = self.raised.pop((report.nodeid, report.when), None)
            if one is None:
                return
            if status is None:
                # The whole of it is tried again, also its subtests.
                self.again.add(report.nodeid)
                self.open[report.nodeid] = {"status": "passed", "ms": one["ms"], "more": 0}
                if report.outcome == "rerun":
                    forget_in_xml(report)
                return
            one["ms"] += getattr(report, "duration", 0.0) * 1000.0
            if status == "passed" and report.when == "call":
                self.called.add(report.nodeid)
            if status == "passed" and raised is not None and report.nodeid not in self.again:
                one["status"] = "failed"
                one["message"] = "it raised %s, and its report was changed to passed" % raised
            unrun = self.unrun.pop(report.nodeid, None) if report.when == "call" else None
            if status == "passed" and report.when == "call" and report.nodeid not in self.hooked and not runs_elsewhere(config_of[0]):
                unrun = uncalled(config_of[0], self.since)
            if status == "passed" and unrun is not None:
                if unrun == UNSEEN:
                    if report.nodeid not in self.unseen:
                        self.unseen.append(report.nodeid)
                else:
                    one["status"] = "failed"
                    one["message"] = unrun
            if status == "skipped" and report.nodeid in self.marked and hasattr(report, "wasxfail"):
                if len(self.marked) == self.all:
                    one["status"] = "failed"
                    one["message"] = "it failed, and a hook had marked each test as one that is expected to fail"
                    return
                if report.nodeid not in self.excused:
                    self.excused.append(report.nodeid)
            if status == "skipped" and report.when == "setup" and "got empty parameter set" in str(report.longrepr):
                self.empty.append(report.nodeid.split("[")[0])
            if status == "passed" or worse[status] < worse[one["status"]] and status == "skipped":
                return
            message, path, line = crash_of(report)
            label = label_of(report)
            if label and status != "skipped":
                message = "%s %s" % (label, message)
            known = one.get("message") if one["status"] in ("failed", "errored") else None
            if known is None:
                if worse[status] > worse[one["status"]]:
                    one["status"], one["message"], one["at_file"], one["at_line"] = status, message, path, line
            elif status != "skipped":
                # A further subtest, or the tear-down of a test that failed: both are told, and the place is the first one's.
                summary = label is None and "subtest" in message and message.startswith("contains ")
                if not summary and one["more"] < 20:
                    heads = {"teardown": "its tear-down: ", "setup": "its set-up: "}
                    one["more"] += 1
                    one["message"] = clip("%s\n%s%s" % (known, heads.get(report.when, ""), message), 1000)
                if worse[status] > worse[one["status"]]:
                    one["status"] = status
                if one.get("at_file") is None:
                    one["at_file"], one["at_line"] = path, line

        def close(self, nodeid):
            one = self.open.pop(nodeid, None)
            if one is not None:
                if one["status"] == "passed" and nodeid not in self.called:
                    # It may be repeated yet, and each time is an end of its own.
                    self.uncalled.add(nodeid)
                else:
                    self.uncalled.discard(nodeid)
                if one["status"] == "passed" and nodeid in self.again and nodeid not in self.late:
                    self.late.append(nodeid)
                one["ms"] = round(one["ms"], 3)
                del one["more"]
                emit("end", id=clip(nodeid, 8000), **one)

        @pytest.hookimpl(tryfirst=True)
        def pytest_configure(self, config):
            config_of.append(config)
            # Workers of pytest-xdist get the same arguments, and would look for it.
            given = config.invocation_params
            args = tuple(arg for arg in given.args if arg != "-p" + _PLUGIN)
            config.invocation_params = type(given)(args=args, plugins=given.plugins, dir=given.dir)
            config.option.plugins = [name for name in config.option.plugins if name != _PLUGIN]
            sys.modules.pop(_PLUGIN, None)
            # A project's settings may have switched the final report off (`-p no:junitxml`).
            if not config.pluginmanager.has_plugin("junitxml"):
                from _pytest import junitxml

                junitxml.pytest_configure(config)

        @pytest.hookimpl(hookwrapper=True)
        def pytest_load_initial_conftests(self, early_config, args):
            config_of.append(early_config)
            # `--cov` of hotcell would measure more than the project's own `--cov=PACKAGE`, whose threshold is of that alone.
            known = early_config.known_args_namespace
            sources = getattr(known, "cov_source", None) or []
            if cover and len(sources) > 1 and sources.count(True) == 1:
                known.cov_source = [source for source in sources if source is not True]
                args.remove("--cov")
            yield

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionstart(self, session):
            # hotcell's files are not the project's; pytest-cov reports by the second of these when the tests have ended.
            controller = getattr(session.config.pluginmanager.getplugin("_cov"), "cov_controller", None)
            for measured in (getattr(controller, name, None) for name in ("cov", "combining_cov")):
                if measured is not None:
                    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "*")
                    measured.set_option("report:omit", list(measured.get_option("report:omit") or []) + [own])
            # What a part of the tests covers says nothing of the whole.
            threshold = threshold_of(session.config) if part else None
            if threshold is not None:
                threshold[1].cov_fail_under = None

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logstart(self, nodeid, location):
            self.open[nodeid] = {"status": "passed", "ms": 0.0, "more": 0}
            self.called.discard(nodeid)
            self.again.discard(nodeid)
            line = location[1] + 1 if isinstance(location[1], int) else None
            emit("start", id=clip(nodeid, 8000), file=clip(location[0], 4000), line=line)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(self, report):
            self.told(report)
            if report.when not in ("setup", "call", "teardown"):
                self.close(report.nodeid)  # a worker died: nothing else comes

        @pytest.hookimpl(trylast=True)
        def pytest_runtest_logfinish(self, nodeid, location):
            self.close(nodeid)

        def stepped(self, item, when, outcome):
            before = self.raised.pop((item.nodeid, when), None)
            if outcome.excinfo is not None:
                self.raised[item.nodeid, when] = outcome.excinfo[0].__name__
            elif before is not None and when == "call":
                self.again.add(item.nodeid)  # a plugin called it again before it reported

        # Innermost, so that a wrapper of the project's that catches, or changes what was caught, comes later.
        @pytest.hookimpl(hookwrapper=True, trylast=True)
        def pytest_runtest_setup(self, item):
            self.stepped(item, "setup", (yield))

        @pytest.hookimpl(hookwrapper=True, trylast=True)
        def pytest_runtest_call(self, item):
            self.unrun.pop(item.nodeid, None)
            self.hooked.add(item.nodeid)
            known = self.codes.get(id(item))
            watched = known is not None and begin(known[2] + changed(known))
            outcome = yield
            if watched:
                ran = end()
                if not ran and outcome.excinfo is None:
                    self.unrun[item.nodeid] = UNSEEN if ran is None else stand_in(item, known)
            self.stepped(item, "call", outcome)

        @pytest.hookimpl(hookwrapper=True, trylast=True)
        def pytest_runtest_teardown(self, item):
            self.stepped(item, "teardown", (yield))

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            before = call.excinfo
            if before is not None:
                self.raised[item.nodeid, call.when] = before.typename
            outcome = yield
            # A name for people, which a hook gives only the report, is no other test.
            if outcome.excinfo is None and getattr(outcome.get_result(), "nodeid", None) not in (None, item.nodeid):
                outcome.get_result().nodeid = item.nodeid
            # For a case of unittest, pytest sets within this hook what it raised.
            if before is None and call.excinfo is not None:
                self.raised[item.nodeid, call.when] = call.excinfo.typename

        @pytest.hookimpl(hookwrapper=True, trylast=True)
        def pytest_make_collect_report(self, collector):
            is_file = isinstance(collector, pytest.File)
            if is_file:
                # What it loads may end the process.
                emit("at", id=clip(collector.nodeid, 8000), file=clip(collector.nodeid, 8000))
            outcome = yield
            if is_file:
                emit("at")
            if outcome.excinfo is not None:
                self.loading = self.loading or collector.nodeid
            elif outcome.get_result().failed:
                self.raised[collector.nodeid] = crash_of(outcome.get_result())

        @pytest.hookimpl(tryfirst=True)
        def pytest_collectreport(self, report):
            hidden = self.raised.pop(report.nodeid, None)
            if report.passed and hidden is None:
                return
            message, path, line = hidden if report.passed else crash_of(report)
            emit(
                "group",
                id=clip(report.nodeid, 8000) or "pytest",  # of the whole session
                status="skipped" if report.skipped else "errored",
                ms=0.0,
                message=message,
                at_file=path,
                at_line=line,
                file=clip(report.nodeid.split("::")[0], 4000),
            )

        @pytest.hookimpl(trylast=True)
        def pytest_collection_finish(self, session):
            self.since = children()
            own = [item.nodeid for item in session.items if item.get_closest_marker("xfail") is not None]
            self.marked = set(own) - self.expected
            self.all = len({item.nodeid for item in session.items})
            # Without items, all that were found are left out.
            if not hasattr(session.config, "workerinput") and (session.items or self.found):
                count = len({item.nodeid for item in session.items})
                emit("collected", count=count, left_out=max(0, len(self.found) - count) or None)

        @pytest.hookimpl(tryfirst=True)
        def pytest_itemcollected(self, item):
            if len(item.nodeid.encode("utf-8", "replace")) > LONGEST:
                item._nodeid = _shortened(item.nodeid)
            self.found.add(item.nodeid)
            self.files.add(str(getattr(item, "path", None) or item.fspath))
            if isinstance(item, pytest.Function):
                if begin is not None:
                    function = item.obj
                    self.codes[id(item)] = (item, function, codes_of(function))
            elif str(getattr(item, "path", None) or item.fspath).endswith(".py"):
                code = codes_of(type(item).runtest)[:1]
                path = inside(code[0].co_filename, top) if code else None
                if path is not None:
                    maker = "%s in %s" % (clip(type(item).__name__, 100), clip(path, 300))
                    self.made[maker] = self.made.get(maker, 0) + 1
            if item.get_closest_marker("xfail") is not None:
                self.expected.add(item.nodeid)

        @pytest.hookimpl(tryfirst=True)
        def pytest_warning_recorded(self, warning_message, when, nodeid, location):
            category = getattr(warning_message.category, "__name__", "")
            if category in unheeded:
                lines = str(warning_message.message).strip().splitlines() or [""]
                words = clip(lines[0], 200)
                if "Thread" in category:
                    # Its first line names neither the test nor the error, which advice of pytest may follow.
                    ends = [at for at, line in enumerate(lines) if line.startswith("Enable tracemalloc")]
                    error = "\n".join(lines[: ends[0] if ends else None]).strip().splitlines()[-1:]
                    words = clip(": ".join([nodeid, words] + error), 400)
                if words not in self.warned:
                    self.warned.append(words)

        def notes(self):
            """Notes about a run that passes, which its result does not show."""
            notes = []
            for heads, all in ((("test passed at a later attempt only: ", "tests passed at a later attempt only: "), self.late),
                               (("test failed, and a hook had marked it as one that is expected to fail: ",
                                 "tests failed, and a hook had marked them as ones that are expected to fail: "), self.excused),
                               (("test passed, and its own function was not seen to run: ",
                                 "tests passed, and their own functions were not seen to run: "), self.unseen),
                               (("test has no parameters and did not run: ", "tests have no parameters and did not run: "), self.empty),
                               (("warning of pytest: ", "warnings of pytest: "), self.warned)):
                if all:
                    listed = ", ".join(clip(one, 200) for one in all[:3]) + (", ..." if len(all) > 3 else "")
                    notes.append("%d %s%s" % (len(all), heads[len(all) != 1], listed))
            for maker, count in sorted(self.made.items())[:3]:
                words = "test of a Python file is" if count == 1 else "tests of Python files are"
                notes.append("%d %s run by the project's own class %s, and not as functions" % (count, words, maker))
            return notes + ([] if part else [note for note in (_note_doubled(self.files),) if note])

        @pytest.hookimpl(optionalhook=True)
        def pytest_xdist_node_collection_finished(self, node, ids):
            emit("collected", count=len(set(ids)))

        @pytest.hookimpl(tryfirst=True)
        def pytest_keyboard_interrupt(self, excinfo):
            # `pytest.exit()`, or an interrupt by a test; not an end because files cannot be loaded, which have told why.
            if excinfo.typename != "Interrupted":
                self.ended_by = clip(excinfo.exconly().replace("_pytest.outcomes.", ""), 1000)

        @pytest.hookimpl(tryfirst=True)
        def pytest_internalerror(self, excinfo):
            # `sys.exit()` beside the tests, as in a file when it is loaded.
            if excinfo.typename == "SystemExit":
                places = [(inside(str(entry.path), top), entry.lineno + 1) for entry in excinfo.traceback]
                places = ["%s:%d" % place for place in places if place[0]]
                at = " at " + places[-1] if places else ""
                self.ended_by = clip("SystemExit: %s%s" % (excinfo.value.code, at), 1000)

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(self, session, exitstatus):
            self.whole = True
            for key in list(self.open):
                self.close(key)
            if self.ended_by and self.loading:
                file = clip(self.loading.split("::")[0], 4000)
                message = "pytest ended while it was loaded: " + self.ended_by
                emit("group", id=clip(self.loading, 8000), status="errored", ms=0.0, message=message, file=file)
            for key in self.uncalled:
                message = "it was set up, and no call of it is known to have passed"
                if self.ended_by:
                    message = "pytest ended while it ran: " + self.ended_by
                emit("group", id=clip(key, 8000), status="errored", ms=0.0, message=message)
            threshold = threshold_of(session.config)
            total = getattr(threshold[0], "cov_total", None) if threshold else None
            if isinstance(total, (int, float)) and total < threshold[2]:
                message = "coverage is %.2f %%, and the project requires %g %%" % (total, threshold[2])
                emit("group", id="coverage threshold", status="errored", ms=0.0, message=message)
            stopped = getattr(session, "shouldfail", False) or getattr(session, "shouldstop", False)
            if self.ended_by:
                stopped = "pytest was ended early: " + self.ended_by
            elif getattr(session.config.option, "collectonly", False):
                stopped = "the project's own settings have pytest collect the tests only (--collect-only)"
            self.stopped = clip(stopped, 1000) if stopped else None

        def before_its_tests(self, ending):
            """What ended pytest before its tests, as a note: the project's own `pytest.exit()`, `sys.exit()`, or hook; None where
            pytest itself says why."""
            head = "pytest was ended before its tests by the project itself: "
            try:
                import traceback

                if self.ended_by is not None:
                    return head + self.ended_by
                frames = traceback.extract_tb(ending.__traceback__)
                places = ["%s:%d" % (inside(frame.filename, top), frame.lineno) for frame in frames if inside(frame.filename, top)]
                if places:
                    return clip("%sSystemExit: %s at %s" % (head, ending.code, places[-1]), 1000)
                place = of_project(config_of[0].hook.pytest_cmdline_main.get_hookimpls()) if config_of else None
                return head + place if place and ending.code in (0, None) else None
            except Exception:
                return None  # what it looks at may be the project's own

    return Plugin()


# Within an id that was shortened, before its digest.
_SHORT = "...sha256:"


def _shortened(nodeid):
    """An id that is as unique: the beginning, a digest, and the end."""
    import hashlib

    digest = hashlib.sha256(nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return "%s%s%s...%s" % (nodeid[:400], _SHORT, digest, nodeid[-100:])


def _tell_step(name, status, ms, message):
    _emit("group", id=_clip(name, 8000), status=status, ms=round(ms, 3), message=message)


# Options of plugins that a project's words for tox or nox may have, whose environments install them.
_OPTIONS = (
    ("xdist", "pytest-xdist", ("-n", "--numprocesses", "--dist", "--maxprocesses", "--max-worker-restart", "--tx")),
    ("pytest_cov", "pytest-cov", ("--cov", "--cov-report", "--cov-config", "--cov-append", "--cov-branch", "--cov-context",
                                  "--cov-fail-under", "--no-cov", "--no-cov-on-fail", "--cov-reset")),
    ("pytest_timeout", "pytest-timeout", ("--timeout", "--timeout-method", "--session-timeout")),
    ("pytest_rerunfailures", "pytest-rerunfailures", ("--reruns", "--reruns-delay", "--only-rerun", "--rerun-except")),
    ("pytest_benchmark", "pytest-benchmark", ("--benchmark-disable", "--benchmark-skip", "--benchmark-only")),
    ("pytest_html", "pytest-html", ("--html", "--self-contained-html", "--css")),
    ("pytest_sugar", "pytest-sugar", ("--force-sugar", "--old-summary")),
)
_ALONE = ("--cov-append", "--cov-branch", "--no-cov", "--no-cov-on-fail", "--cov-reset", "--benchmark-disable",
          "--benchmark-skip", "--benchmark-only", "--self-contained-html", "--force-sugar", "--old-summary")


def _for_plugins(words, find):
    """The project's words without options of plugins that are not installed, and what is to be said of that."""
    kept, lost, words = [], [], list(words)
    while words:
        word = words.pop(0)
        option = word.split("=", 1)[0] if word.startswith("--") else word[:2]
        plugin = next((entry for entry in _OPTIONS if option in entry[2]), None)
        if not word.startswith("-") or plugin is None or find(plugin[0]) is not None:
            kept.append(word)
            continue
        joined = "=" in word or not word.startswith("--") and len(word) > 2
        if not joined and option not in _ALONE and words and not words[0].startswith("-"):
            word += " " + words.pop(0)
        lost.append("%s (%s is not installed)" % (word, plugin[1]))
    return kept, ["left out of what %s says: %s" % (_WORDS.get("source"), ", ".join(lost))] if lost else []


def _variable_for_plugins(find):
    """The same for `PYTEST_ADDOPTS` where the project's words set it; what is to be said."""
    import shlex

    name = "PYTEST_ADDOPTS"
    value = os.environ.get(name)
    if value is None or value != dict(_WORDS.get("variables", ())).get(name):
        return []
    try:
        words = shlex.split(value)
    except ValueError:
        return []  # pytest says what is wrong with it
    kept, lost = _for_plugins(words, find)
    if lost:
        os.environ[name] = " ".join(shlex.quote(word) for word in kept)
    return lost


def _lister(pytest, path):
    """Writes the ids of what was collected."""
    import json

    os.makedirs(os.path.dirname(path), exist_ok=True)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(session):
        if not hasattr(session.config, "workerinput"):
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                json.dump(list(dict.fromkeys(item.nodeid for item in session.items)), file)

    return pytest_collection_finish


def _keep(pytest, plugin, ids, each):
    """Of what is collected, only these tests, for ids that pytest does not take as words and words that name more. With
    `each`, only where every one of them is there."""
    wanted = set(ids)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(config, items):
        rest = [item for item in items if item.nodeid not in wanted]
        if rest and not (each and wanted - {item.nodeid for item in items}):
            config.hook.pytest_deselected(items=rest)
            items[:] = [item for item in items if item.nodeid in wanted]
            plugin.found.difference_update(item.nodeid for item in rest)

    plugin.pytest_collection_modifyitems = pytest_collection_modifyitems


def _from_here(id):
    """An id, which begins at the project's top, as a word for pytest in another folder."""
    above = os.path.join(_TOP, id.split("::")[0])
    return os.path.join(os.path.relpath(_TOP), id) if os.getcwd() != _TOP and os.path.exists(above) else id


def _main():
    import importlib.util
    import json
    import runpy
    import types

    only, listing = _own("--hotcell-only="), _own("--hotcell-list=")
    cover, part, jobs = _own("--hotcell-cover="), _own("--hotcell-part="), _own("--hotcell-jobs=")
    keep = _own("--hotcell-keep=")
    _become_module()
    try:
        import pytest
    except ImportError as error:
        # A pytest that is there and broken is another matter: it says itself what is wrong.
        if error.name not in ("pytest", "_pytest"):
            raise
        _emit("missing", what="pytest", **_runtime())
        sys.stderr.write("pytest is not installed for %s\n" % sys.executable)
        sys.exit(_MISSING)
    for wanted, module, package, options in (
        (jobs, "xdist", "pytest-xdist", ["-n", str(jobs)]),
        (cover, "pytest_cov", "pytest-cov", ["--cov", "--cov-report=lcov:%s" % cover]),
    ):
        if wanted is None:
            continue
        # Found, not imported: what is measured must begin when it does.
        if importlib.util.find_spec(module) is None:
            _emit("missing", what=package, **_runtime())
            sys.stderr.write("%s is not installed for %s\n" % (package, sys.executable))
            sys.exit(_MISSING)
        sys.argv[1:1] = options
    arguments, lost = _for_plugins(_argument_words(), importlib.util.find_spec)
    sys.argv[1:1] = arguments
    lost += _variable_for_plugins(importlib.util.find_spec)
    _emit("session", tool="pytest", version=pytest.__version__, **_runtime())
    plugin = _plugin(pytest, _emit, _clip, _cwd, part is not None, cover is not None)
    if only is not None:
        # More than a command line may have.
        with open(only, encoding="utf-8") as file:
            ids = json.load(file)
        sys.argv.extend(_from_here(id) for id in ids)
        # A package after `--pyargs` is no file of the project's settings, and is collected as well.
        _keep(pytest, plugin, [re.sub(r"^(\.\.?/)+", "", id) for id in ids], each=True)
    # pytest does not find an id again that was shortened: its function has it.
    short = [word for word in sys.argv[1:] if _SHORT in word]
    if short:
        sys.argv[1:] = list(dict.fromkeys(word.split("[")[0] if word in short else word for word in sys.argv[1:]))
        if only is None:
            _keep(pytest, plugin, [re.sub(r"^(\.\.?/)+", "", word) for word in short], each=True)
    if keep is not None:
        with open(keep, encoding="utf-8") as file:
            _keep(pytest, plugin, json.load(file), each=False)
        # Workers of pytest-xdist collect for themselves, without this.
        sys.argv.extend(["-n0"] if importlib.util.find_spec("xdist") else [])
    if listing is not None:
        sys.argv[1:1] = ["--collect-only", "-q"]
        plugin.pytest_collection_finish = _lister(pytest, listing)
    # A plugin by name, as anybody's would be. There is nothing in it for pytest to rewrite.
    module = types.ModuleType(_PLUGIN, "PYTEST_DONT_REWRITE")
    for name in dir(plugin):
        if name.startswith("pytest_"):
            setattr(module, name, getattr(plugin, name))
    sys.modules[_PLUGIN] = module
    sys.argv.insert(1, "-p" + _PLUGIN)
    try:
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        code = _exit_code(ending)
        if listing is None and code in (0, 1, 5) and not _run_steps(_tell_step) and code != 1:
            code = ending.code = _EXIT_OF_STEPS
        if code == 5 and _WORDS.get("steps"):
            code = ending.code = 0
        stopped = [plugin.stopped] if plugin.stopped else []
        if not plugin.whole:
            stopped = [early for early in (plugin.before_its_tests(ending),) if early]
        _emit("finish", exit=code, stopped="; ".join(lost + stopped + plugin.notes()) or None)
        raise


if __name__ == "__main__":
    _main()
