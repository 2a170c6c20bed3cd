"""What `look` printed on each host, judged and written as a table: matrix.py LOG JSON MARKDOWN, or matrix.py --selftest.

A cell is what came out: `holds`, `partly: …` or `refused: …`. What a refusal says is compared with what the doctor found on the
same host; which layers may be missing from a host says who made the host (`MATRIX lacks LAYER…`), and is never put into a cell.
"""

import json
import re
import sys

LAYERS = """user_ns mount_ns pid_ns net_ns ipc_ns uts_ns cgroup_ns time_ns landlock seccomp cgroup rlimits no_new_privs
capabilities""".split()
PROFILES = ["standard", "strict", "landlock-only"]
REFUSAL = re.compile(
    r"(?:the layer (?P<cannot>\w+) cannot be had|the policy requires the layer (?P<requires>\w+), and it cannot be had): "
    r"(?P<answer>.*?)(?:; to mend it: (?P<mend>.*?))?(?P<less>; `--profile landlock-only` runs with less)?; see `hotcell doctor`"
)


# Where this machine's own processes happen to be is of no interest.
OWN_GROUP = re.compile(r"(/sys/fs/cgroup/\w+/)\S+(/hotcell:)")


PAGE = """# Kernel matrix

The layers that hold on each host, as found by `tests/kernels/matrix` (part of `scripts/full`; `--out FOLDER` writes this page). On each host `hotcell doctor --json`
tries every layer by its purpose, each profile runs a program, and each layer is required once. A cell is the result:

| cell | |
| --- | --- |
| holds | with the layer required, the run went on with it in force, and the doctor's trial of it was stopped. In brackets the version of Landlock or of cgroups |
| partly | runs are possible without the layer, and their outcome says so, or it holds only with `--profile landlock-only`; the message is below |
| refused | nothing ran (exit status 125); the message is below |

The command fails unless every refusal has the answer and the advice of `hotcell doctor` on that host, and if a layer
is missing that was not taken away. *Imitated*: a filter around hotcell reports another version to it, or refuses a call; newer versions of Landlock than the
kernel's are reported as well, and lead to refusals if they announce a right that the kernel does not know. *In QEMU*: Debian's own kernel, cgroup v2, a group delegated to each user. A machine in QEMU runs
only the attacks whose numbers are named; this machine runs all of them (`cargo test -p hotcell-attacks`, [attacks](attacks.md)).
For hosts with missing features see [restricted hosts](weak-hosts.md).

"""


class Wrong(Exception):
    """What came out is neither."""


def parse(text):
    """Hosts in the order of the log: {"name", "lacks", "looks": {key: (status, json)}, "suites": […], "skipped"}."""
    hosts = []
    for line in text.splitlines():
        if not line.startswith("MATRIX "):
            continue
        key, _, rest = line.removeprefix("MATRIX ").partition(" ")
        if key == "host":
            hosts.append({"name": rest, "lacks": [], "looks": {}, "suites": [], "skipped": None})
        elif key == "lacks":
            hosts[-1]["lacks"] = LAYERS if rest == "all" else rest.split()
        elif key == "skipped":
            hosts[-1]["skipped"] = rest
        elif key == "suite":
            *counts, name = rest.split(" ", 3)
            hosts[-1]["suites"].append((name, *map(int, counts)))
        else:
            status, _, answer = rest.partition(" ")
            try:
                hosts[-1]["looks"][key] = (int(status), json.loads(answer))
            except ValueError:
                hosts[-1]["looks"][key] = (int(status), None)
    return hosts


def look(host, key):
    status, answer = host["looks"].get(key, (None, None))
    if answer is None:
        raise Wrong(f"{key}: no answer (status {status})")
    return status, answer


def words(host, outcome, status, profile):
    """The reason of a refusal, if it says what the doctor says, and offers less only where less can be had."""
    reason = outcome.get("reason") or ""
    if (status, outcome["cause"]) != (125, "refused") or outcome["stdout"]["bytes"]:
        raise Wrong(f"neither ran nor was refused: status {status}, {outcome['cause']}: {reason}")
    found = REFUSAL.fullmatch(reason)
    if not found:
        raise Wrong(f"refused without the words that are promised: {reason}")
    doctor = look(host, "doctor")[1]
    layer = found["cannot"] or found["requires"]
    promised = doctor["layers"][layer]
    if promised["state"] == "on" or (found["answer"], found["mend"]) != (promised["answer"], promised["mend"]):
        raise Wrong(f"refused for {layer}, and the doctor says {promised}: {reason}")
    if found["less"] and (profile == "landlock-only" or doctor["profiles"]["landlock-only"] != "available"):
        raise Wrong(f"offers less where less cannot be had: {reason}")
    return reason


def profile_cell(host, profile):
    status, outcome = look(host, f"profile:{profile}")
    said = look(host, "doctor")[1]["profiles"][profile]
    if status == 0 and outcome["cause"] == "exited":
        if said != "available":
            raise Wrong(f"{profile} runs, and the doctor says {said}")
        return "runs"
    reason = words(host, outcome, status, profile)
    layer = re.search(r"the layer (\w+)", reason)[1]
    if not said.startswith(f"refused: it needs {layer},"):
        raise Wrong(f"{profile} is refused for {layer}, and the doctor says {said}")
    return f"refused: {reason}"


def layer_cell(host, layer):
    trial = look(host, "doctor")[1]["layers"][layer]
    held, refused = [], None
    for profile in ("standard", "landlock-only"):
        if f"require:{profile}:{layer}" not in host["looks"]:
            continue
        status, outcome = look(host, f"require:{profile}:{layer}")
        if status == 0:
            if outcome["layers"][layer] != "on" or trial["state"] != "on":
                raise Wrong(f"{layer} is required, runs, and is {outcome['layers'][layer]}, by trial {trial['state']}")
            held.append(profile)
        else:
            reason = words(host, outcome, status, profile)
            refused = refused or reason
    if "standard" in held:
        return "holds"
    if held:
        return f"partly: with `--profile landlock-only`; else refused: {refused}"
    status, outcome = look(host, "profile:standard")
    if status == 0:
        state = outcome["layers"][layer]
        found = f"unavailable: {trial['answer']}"
        if state not in (found, f"{found}; to mend it: {trial['mend']}"):
            raise Wrong(f"{layer} is not had, and the outcome of a run says {state}")
        return f"partly: a run goes without it and says so; where it is required, refused: {refused}"
    return f"refused: {refused}"


def judge(host):
    """All cells of a host, and what is wrong with it."""
    cells, wrong = {}, []

    def cell(name, make):
        try:
            cells[name] = make()
        except (Wrong, KeyError, TypeError) as why:
            cells[name] = f"WRONG: {why}"
            wrong.append(f"{host['name']}: {name}: {why}")

    for layer in LAYERS:
        cell(layer, lambda: layer_cell(host, layer))
        # Where namespaces lack, the other layers hold in the profile that goes without them.
        good = ("holds", "partly: with", "WRONG") if set(host["lacks"]) & set(LAYERS[:8]) else ("holds", "WRONG")
        if layer not in host["lacks"] and not cells[layer].startswith(good):
            wrong.append(f"{host['name']}: {layer} should hold here: {cells[layer]}")
    for profile in PROFILES:
        cell(profile, lambda: profile_cell(host, profile))
    runs = [look(host, f"profile:{p}")[1] for p in PROFILES if cells[p] == "runs"]
    if runs:
        told = runs[0]["layers"]
        if cells["landlock"].startswith(("holds", "partly: with")):
            cells["landlock"] = cells["landlock"].replace("holds", f"holds (version {told['landlock_abi']})")
        if cells["cgroup"] == "holds":
            cells["cgroup"] = f"holds (version {told['cgroup_version']})"
        cells["denials told"] = "holds" if told["notifications"] == "on" else f"partly: {told['notifications']}"
    else:
        cells["denials told"] = "nothing runs"
    for name, passed, failed, _ in host["suites"]:
        if failed or not passed:
            wrong.append(f"{host['name']}: {name}: {passed} passed, {failed} failed")
    return cells, wrong


def markdown(hosts):
    """The table; long words stand below it, each once."""
    columns = [*LAYERS, "denials told", *PROFILES]
    notes = []

    def short(cell):
        kind, _, rest = OWN_GROUP.sub(r"\1…\2", cell).partition(": ")
        if not rest:
            return cell
        if rest not in notes:
            notes.append(rest)
        return f"{kind} [{notes.index(rest) + 1}]"

    rows = []
    for host in hosts:
        cells = [short(host["cells"][name]) for name in columns] if host["cells"] else None
        if rows and cells and rows[-1][1] == cells and rows[-1][0].rpartition(", ")[0] == host["name"].rpartition(", ")[0]:
            rows[-1] = (rows[-1][0] + " and " + host["name"].rpartition(", ")[2], cells)
        else:
            rows.append((host["name"], cells or [f"not tried: {host['skipped']}", *[""] * (len(columns) - 1)]))
    lines = ["| host | " + " | ".join(columns) + " |", "|" + " --- |" * (len(columns) + 1)]
    lines += [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows]
    lines += [""] + [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    suites = [(host["name"], *suite) for host in hosts for suite in host["suites"]]
    if suites:
        lines += ["", "| host | what ran | passed | failed | skipped |", "| --- | --- | ---: | ---: | ---: |"]
        lines += ["| " + " | ".join([host, name, *map(str, counts)]) + " |" for host, name, *counts in suites]
    return PAGE + "\n".join(lines) + "\n"


def selftest():
    """A judge that finds nothing wrong is worth nothing."""
    layers = dict.fromkeys(LAYERS, "on")
    trials = {layer: {"state": "on", "answer": "tried", "mend": None} for layer in LAYERS}
    ran = {"cause": "exited", "reason": None, "stdout": {"bytes": 0},
           "layers": {**layers, "landlock_abi": 7, "cgroup_version": 2, "notifications": "on"}}
    no = {"state": "unavailable: no: EPERM", "answer": "no: EPERM", "mend": "sudo this"}
    less = "; `--profile landlock-only` runs with less"

    def refusal(layer, mend="sudo this", less="", form="the policy requires the layer {}, and it cannot be had"):
        reason = f"{form.format(layer)}: no: EPERM; to mend it: {mend}{less}; see `hotcell doctor`"
        return 125, {"cause": "refused", "reason": reason, "stdout": {"bytes": 0}, "layers": layers}

    def host(**changed):
        doctor = {"layers": dict(trials), "profiles": dict.fromkeys(PROFILES, "available")}
        looks = {"doctor": (0, doctor), **{f"profile:{p}": (0, ran) for p in PROFILES}}
        looks |= {f"require:standard:{layer}": (0, ran) for layer in LAYERS}
        lacks = changed.pop("lacks", [])
        for layer in changed.pop("without", []):
            doctor["layers"][layer] = no
        doctor["profiles"].update(changed.pop("profiles", {}))
        looks.update(changed.pop("looks", {}))
        return {"name": "host, root", "lacks": lacks, "looks": looks, "suites": changed.pop("suites", []), "skipped": None}

    without = {**ran, "layers": {**ran["layers"], "cgroup": "unavailable: no: EPERM"}}
    bare = {"profile:standard": (0, without), "profile:landlock-only": (0, without), "profile:strict": refusal("cgroup")}
    poor = {"without": ["cgroup"], "lacks": ["cgroup"], "profiles": {"strict": "refused: it needs cgroup, which cannot be had here"}}
    form = "the layer {} cannot be had"
    shut = {f"require:standard:{layer}": refusal("user_ns", less=less, form=form) for layer in LAYERS}
    shut |= {f"profile:{p}": refusal("user_ns", less=less, form=form) for p in ("standard", "strict")}
    closed = {p: "refused: it needs user_ns, which cannot be had here" for p in ("standard", "strict")}
    kept = {f"require:landlock-only:{layer}": (0, ran) for layer in ("landlock", "seccomp")}
    for what, given, column, begins, faults in [
        ("all holds", host(), "cgroup", "holds (version 2)", 0),
        ("a suite failed", host(suites=[("tests", 3, 1, 0)]), "cgroup", "holds", 1),
        ("refused and labelled", host(**poor, looks={**bare, "require:standard:cgroup": refusal("cgroup")}), "cgroup", "partly: a run", 0),
        ("should hold", host(**{**poor, "lacks": []}, looks={**bare, "require:standard:cgroup": refusal("cgroup")}), "cgroup", "partly", 1),
        ("other advice", host(**poor, looks={**bare, "require:standard:cgroup": refusal("cgroup", "that")}), "cgroup", "WRONG", 1),
        ("another layer", host(**poor, looks={**bare, "require:standard:cgroup": refusal("seccomp")}), "cgroup", "WRONG", 1),
        ("runs though required", host(**poor, looks={**bare, "require:standard:cgroup": (0, without)}), "cgroup", "WRONG", 1),
        ("not labelled", host(**poor, looks={**bare, "profile:standard": (0, ran), "require:standard:cgroup": refusal("cgroup")}), "cgroup", "WRONG", 1),
        ("a crash", host(looks={"require:standard:pid_ns": (139, None)}), "pid_ns", "WRONG", 1),
        ("shut", host(without=["user_ns"], lacks=LAYERS, profiles=closed, looks={**shut, **kept}), "landlock", "partly: with `--prof", 0),
        ("shut for user_ns", host(without=["user_ns"], lacks=LAYERS, profiles=closed, looks={**shut, **kept}), "user_ns", "refused: the layer user_ns", 0),
        ("offers what is not there", host(without=["user_ns"], lacks=LAYERS, profiles={**closed, "landlock-only": "refused: it needs landlock, "},
                                          looks={**shut, "profile:landlock-only": refusal("user_ns")}), "user_ns", "WRONG", None),
    ]:
        cells, wrong = judge(given)
        assert cells[column].startswith(begins), (what, cells[column])
        assert bool(wrong) if faults is None else len(wrong) == faults, (what, wrong)
    print("matrix.py: the judge is as expected")


def main(log, to_json, to_markdown):
    with open(log, encoding="utf-8", errors="replace") as file:
        hosts = parse(file.read())
    wrong = []
    for host in hosts:
        host["cells"] = {}
        if host["skipped"] is None:
            host["cells"], faults = judge(host)
            wrong += faults
    with open(to_json, "w", encoding="utf-8") as file:
        rows = [{key: host[key] for key in ("name", "cells", "suites", "skipped")} for host in hosts]
        json.dump({"schema": "hotcell.kernel-matrix/1", "hosts": rows, "wrong": wrong}, file, indent=1)
    with open(to_markdown, "w", encoding="utf-8") as file:
        file.write(markdown(hosts))
    for fault in wrong:
        print(f"FAILED: {fault}")
    cells = sum(len(host["cells"]) for host in hosts)
    print(f"{cells - len(wrong)} passed, {len(wrong)} failed, {sum(host['skipped'] is not None for host in hosts)} hosts skipped")
    return bool(wrong) or not cells


if __name__ == "__main__":
    if sys.argv[1:] == ["--selftest"]:
        selftest()
    else:
        sys.exit(main(*sys.argv[1:]))
