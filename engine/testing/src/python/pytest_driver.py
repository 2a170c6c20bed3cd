
import re

_PLUGIN = "hotcell_live"


def _plugin(pytest, emit, clip, top):
    """What pytest tells its plugins, passed on. In workers of pytest-xdist nothing of this is loaded."""
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
        else:
            places = list(places_in(longrepr))
            if crash is not None:
                message = crash.message
                places.insert(0, (str(crash.path), crash.lineno))
            else:
                lines = str(longrepr or "").strip().splitlines()
                errors = [line[1:] for line in lines if line.startswith("E ")]
                message = (errors or lines or [""])[-1].strip()
        for path, line in places:
            path = inside(path, top)
            if path is not None and isinstance(line, int):
                return clip(message, 1000), path, line
        return clip(message, 1000), None, None

    class Plugin(object):
        def __init__(self):
            self.open = {}
            self.stopped = None
            self.raised = {}  # what a test or a file raised, before other plugins had a word in it
            self.called = set()  # tests that were called, not only set up
            self.uncalled = set()  # tests that ended without that, as by `--setup-only` in a project's settings
            self.again = set()  # tests that are repeated
            self.found = set()  # tests that were found, also those that will be left out

        def told(self, report):
            status = status_of(report)
            one = self.open.get(report.nodeid)
            raised = self.raised.pop((report.nodeid, report.when), None)
            if one is None:
                return
            if status is None:
                self.again.add(report.nodeid)
                return
            one["ms"] += getattr(report, "duration", 0.0) * 1000.0
            if status == "passed" and report.when == "call":
                self.called.add(report.nodeid)
            if status == "passed" and raised is not None and report.nodeid not in self.again:
                one["status"] = "failed"
                one["message"] = "it raised %s, and its report was changed to passed" % raised
            if worse[status] > worse[one["status"]]:
                one["status"] = status
                one["message"], one["at_file"], one["at_line"] = crash_of(report)

        def close(self, nodeid):
            one = self.open.pop(nodeid, None)
            if one is not None:
                if one["status"] == "passed" and nodeid not in self.called:
                    # It may be repeated yet, and each time is an end of its own.
                    self.uncalled.add(nodeid)
                else:
                    self.uncalled.discard(nodeid)
                one["ms"] = round(one["ms"], 3)
                emit("end", id=clip(nodeid, 8000), **one)

        @pytest.hookimpl(tryfirst=True)
        def pytest_configure(self, config):
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

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logstart(self, nodeid, location):
            self.open[nodeid] = {"status": "passed", "ms": 0.0}
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

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            # A test that is repeated may raise the first time.
            self.raised.pop((item.nodeid, call.when), None)
            if call.excinfo is not None:
                self.raised[item.nodeid, call.when] = call.excinfo.typename
            yield

        @pytest.hookimpl(hookwrapper=True, trylast=True)
        def pytest_make_collect_report(self, collector):
            outcome = yield
            if outcome.excinfo is None and outcome.get_result().failed:
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
            if not hasattr(session.config, "workerinput") and session.items:
                count = len({item.nodeid for item in session.items})
                emit("collected", count=count, left_out=max(0, len(self.found) - count) or None)

        @pytest.hookimpl(tryfirst=True)
        def pytest_itemcollected(self, item):
            self.found.add(item.nodeid)

        @pytest.hookimpl(optionalhook=True)
        def pytest_xdist_node_collection_finished(self, node, ids):
            emit("collected", count=len(set(ids)))

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(self, session, exitstatus):
            for key in list(self.open):
                self.close(key)
            for key in self.uncalled:
                message = "it was set up, and no call of it is known to have passed"
                emit("group", id=clip(key, 8000), status="errored", ms=0.0, message=message)
            stopped = getattr(session, "shouldfail", False) or getattr(session, "shouldstop", False)
            self.stopped = clip(stopped, 1000) if stopped else None

    return Plugin()


def _main():
    import importlib.util
    import runpy
    import types

    cover, jobs = _own("--hotcell-cover="), _own("--hotcell-jobs=")
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
    _emit("session", tool="pytest", version=pytest.__version__, **_runtime())
    plugin = _plugin(pytest, _emit, _clip, _cwd)
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
        _emit("finish", exit=_exit_code(ending), stopped=plugin.stopped)
        raise


if __name__ == "__main__":
    _main()
