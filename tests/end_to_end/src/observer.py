"""Runs a suite as its own command does and writes what became of each test, for a comparison with what hotcell says.

usage: observer.py REPORT pytest|unittest [ARGUMENT...]
"""

import json
import os
import sys

WORSE = ["passed", "skipped", "failed", "errored"]
seen = {}


def note(test, status):
    seen[test] = max(seen.get(test, "passed"), status, key=WORSE.index)


def with_pytest(arguments):
    import pytest

    class Observer:
        def pytest_runtest_logreport(self, report):
            if report.failed:
                note(report.nodeid, "failed" if report.when == "call" else "errored")
            else:
                note(report.nodeid, "skipped" if report.skipped else "passed")

        def pytest_collectreport(self, report):
            if not report.passed:
                note(report.nodeid, "errored" if report.failed else "skipped")

    return pytest.main(arguments, plugins=[Observer()])


def with_unittest(arguments):
    import unittest

    class Observer(unittest.TextTestResult):
        def startTest(self, test):
            super().startTest(test)
            note(test.id(), "passed")

        def addError(self, test, err):
            super().addError(test, err)
            note(test.id(), "errored")

        def addFailure(self, test, err):
            super().addFailure(test, err)
            note(test.id(), "failed")

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            note(test.id(), "skipped")

        def addExpectedFailure(self, test, err):
            super().addExpectedFailure(test, err)
            note(test.id(), "skipped")

    runner = unittest.TextTestRunner(resultclass=Observer)
    ran = unittest.main(module=None, argv=["python -m unittest", *arguments], testRunner=runner, exit=False)
    return 0 if ran.result.wasSuccessful() else 1


def main():
    report, framework, *arguments = sys.argv[1:]
    # As with `python -m`.
    sys.path[0] = os.getcwd()
    code = {"pytest": with_pytest, "unittest": with_unittest}[framework](arguments)
    with open(report, "w") as file:
        json.dump({"code": int(code), "tests": seen}, file)


if __name__ == "__main__":
    main()
