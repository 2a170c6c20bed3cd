//! Distinguishes ordinary from dangerous Python by the origin of values, and by what loops iterate over.

use hotcell_guard::{Artifact, Limits, Pack, PackError, Verdict, scan};

#[test]
fn values_are_followed_through_loops_and_calls() -> Result<(), PackError> {
    let pack = Pack::builtin()?;
    for (verdict, source) in [
        (Verdict::Quarantine, "import os\nfor c in ('ls', 'rm -rf /home'):\n    os.system(c)"),
        (
            Verdict::Quarantine,
            "import os\nfor c in ['rm -rf /home', 'ls']:\n    for d in ['a', 'b']:\n        os.system(c)",
        ),
        (Verdict::Quarantine, "import shutil\nfor d in ('/home', '/etc'):\n    shutil.rmtree(d)"),
        (Verdict::Allow, "import os\nfor c in ('ls', 'cmd /c ver'):\n    os.system(c)"),
        (Verdict::Review, "import os\nfor c in ('ls', 'cmd /c del x'):\n    os.system(c)"),
        (Verdict::Review, "import os\nfor c in ('ls', unknown):\n    os.system(c)"),
        // A library's path taken from a program's output, and one in a temporary folder.
        (
            Verdict::Allow,
            "import ctypes, subprocess, tempfile\nt = tempfile.mkdtemp()\np = subprocess.run(['ld', '-o', t]).stdout\nctypes.CDLL(p)",
        ),
        (Verdict::Review, "import ctypes, tempfile\nt = tempfile.mkdtemp() + '/x.so'\nctypes.CDLL(t)"),
        (Verdict::Review, "import os\nwhile x:\n    os.fork()\n    time.sleep(1)"),
        (
            Verdict::Allow,
            "import os\nwhile x:\n    c, a = s.accept()\n    if os.fork() == 0:\n        serve(c)",
        ),
        // Passed on unchanged, and given here.
        (Verdict::Allow, "import os\ndef start(path, args):\n    os.posix_spawn(path, [path], {})"),
        (
            Verdict::Review,
            "import os\ndef start(path):\n    os.posix_spawn(path, [path], {})\nstart('/bin/x')",
        ),
        (
            Verdict::Allow,
            "import io\nfor n, line in enumerate(io.TextIOWrapper(io.open_code(f))):\n    exec(line)",
        ),
        (Verdict::Review, "for n, line in enumerate(sys.argv[1:]):\n    exec(line)"),
        // As in IPython, at the beginning of a line and after an equals sign.
        (Verdict::Quarantine, "!rm -rf /home"),
        (Verdict::Quarantine, "out = !rm -rf /home"),
        (Verdict::Allow, "out = !ls\n%cd /tmp"),
        // A step of zero is an error, however it is written.
        (Verdict::Allow, "k = 'abc'[::0] or 'nepop'[::-0]"),
    ] {
        let report = scan(&pack, &Limits::default(), &Artifact::new("a.py", source));
        assert_eq!(report.verdict, verdict, "{source}\n{:?}", report.findings);
    }
    Ok(())
}
