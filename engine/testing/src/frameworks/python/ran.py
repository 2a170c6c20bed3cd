

def _make_watch():
    """Tells if the code of a test's function began while it was called.

    `begin` takes the function's codes and is True where they are watched; `end` is True, False, or None where that cannot be
    known: on Python before 3.12, of code that threads from before the call run, or greenlets, and of a child process.
    """
    import threading

    state = {"codes": None, "seen": False, "forks": 0, "at": 0, "threads": 0}

    def forked():
        state["forks"] += 1

    os.register_at_fork(after_in_parent=forked)
    monitoring = getattr(sys, "monitoring", None)
    tool = None
    if monitoring is not None:
        tool = next((free for free in (4, 3) if monitoring.get_tool(free) is None), None)
        if tool is None:
            return None, None
        monitoring.use_tool_id(tool, "hotcell")

        def started(code, _):
            if state["codes"] and code in state["codes"]:
                state["seen"] = True

        monitoring.register_callback(tool, monitoring.events.PY_START, started)
    get, put, put_all, count = sys.getprofile, sys.setprofile, threading.setprofile, threading.active_count

    def called(frame, event, _):
        codes = state["codes"]
        if codes and frame.f_code in codes:
            state["seen"] = True
        # The test itself runs as without this.
        if state["seen"] or not codes:
            put(None)

    def begin(codes):
        if state["codes"] or not codes:
            return False
        state.update(codes=codes, seen=False, at=state["forks"], threads=count())
        if tool is not None:
            for code in codes:
                monitoring.set_local_events(tool, code, monitoring.events.PY_START)
            return True
        if get() is not None:
            state["codes"] = None
            return False
        put_all(called)
        put(called)
        return True

    def end():
        codes, state["codes"] = state["codes"], None
        if tool is not None:
            for code in codes:
                monitoring.set_local_events(tool, code, 0)
        else:
            if get() is called:
                put(None)
            put_all(None)
        if state["seen"]:
            return True
        hidden = tool is None and (state["threads"] > 1 or "greenlet" in sys.modules)
        return None if hidden or state["forks"] != state["at"] else False

    return begin, end


def _codes_of(function):
    """The code of a function, and of those that it wraps."""
    found = []
    try:
        for _ in range(20):
            function = getattr(function, "__func__", function)
            code = getattr(function, "__code__", None)
            if isinstance(code, type(_codes_of.__code__)):
                found.append(code)
            function = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
            if function is None:
                break
    except Exception:
        pass  # an object of the project's that only looks like a function
    return found
