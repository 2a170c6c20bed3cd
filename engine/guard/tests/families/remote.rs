//! Commands on other machines and in containers, by each library that runs them, beside forms in which the caller only chooses an
//! argument.

use crate::check::{Programs, check};
use hotcell_guard::PackError;

/// A library's import, and statements of which the last is the answer; `§` stands for the command.
type Way = (&'static str, &'static str);

/// Libraries that give a line to a shell of another machine.
const LINES: &[Way] = &[
    (
        "import paramiko",
        "c = paramiko.SSHClient(); c.connect('web1'); _, out, _ = c.exec_command(§); return str(out)",
    ),
    (
        "import paramiko",
        "t = paramiko.Transport(('web1', 22)); s = t.open_session(); s.exec_command(§); return str(s.recv(99))",
    ),
    (
        "import paramiko",
        "c = paramiko.SSHClient(); s = c.get_transport().open_session(); s.exec_command(§); return str(s)",
    ),
    (
        "import paramiko",
        "c = paramiko.SSHClient(); s = c.invoke_shell(); s.send(§ + '\\n'); return str(s.recv(99))",
    ),
    (
        "from paramiko import SSHClient",
        "with SSHClient() as c: c.connect('web1'); i, o, e = c.exec_command('bash -s'); i.write(§); return str(o)",
    ),
    ("import asyncssh", "c = await asyncssh.connect('web1'); return (await c.run(§, check=True)).stdout"),
    (
        "import asyncssh",
        "p = await (await asyncssh.connect('web1')).create_process(§); return str(await p.wait())",
    ),
    (
        "import asyncssh",
        "p = await (await asyncssh.connect('web1')).create_process('bash'); p.stdin.write(§); return str(await p.wait())",
    ),
    ("from fabric import Connection", "return Connection('web1').run(§, hide=True).stdout"),
    ("from fabric import Connection", "return Connection('web1').sudo(§).stdout"),
    ("from fabric import SerialGroup", "return str(SerialGroup('web1', 'web2').run(§))"),
    ("from fabric.api import run, settings", "return str(run(§))"),
    (
        "from ssh2.session import Session",
        "s = Session(); channel = s.open_session(); channel.execute(§); return str(channel.read())",
    ),
    ("from pssh.clients import ParallelSSHClient", "return str(ParallelSSHClient(['web1']).run_command(§))"),
    (
        "from pexpect import pxssh",
        "s = pxssh.pxssh(); s.login('web1', 'me'); s.sendline(§); s.prompt(); return str(s.before)",
    ),
    ("import pexpect", "p = pexpect.spawn('ssh web1'); p.sendline(§); return str(p.before)"),
    (
        "from netmiko import ConnectHandler",
        "return ConnectHandler(device_type='linux', host='web1').send_command(§)",
    ),
    (
        "from netmiko import ConnectHandler",
        "d = ConnectHandler(device_type='cisco_ios', host='r1'); return d.send_config_set(['line vty 0 4', §])",
    ),
    ("from scrapli import Scrapli", "d = Scrapli(host='r1'); return d.send_command(§).result"),
    ("from plumbum import SshMachine", "return SshMachine('web1').session().run(§)[1]"),
    ("import winrm", "return str(winrm.Session('w1', auth=('a', 'b')).run_ps(§).std_out)"),
    (
        "import boto3",
        "return str(boto3.client('ssm').send_command(InstanceIds=['i-1'], DocumentName='AWS-RunShellScript', Parameters={'commands': [§]}))",
    ),
    (
        "import ansible_runner",
        "return str(ansible_runner.run(host_pattern='web', module='shell', module_args=§))",
    ),
    ("import salt.client", "return str(salt.client.LocalClient().cmd('web*', 'cmd.run', [§]))"),
    (
        "import telnetlib",
        "t = telnetlib.Telnet('r1'); t.write(§.encode() + b'\\n'); return str(t.read_all())",
    ),
    ("import libtmux", "libtmux.Server().sessions[0].active_pane.send_keys(§); return 'ok'"),
];

/// Libraries that start a program in a container or on a machine, from a list or a text.
const WORDS: &[Way] = &[
    ("import docker", "return str(docker.from_env().containers.get('web').exec_run(§))"),
    ("import docker", "return str(docker.from_env().containers.run('alpine', §, remove=True))"),
    ("import docker", "c = docker.DockerClient(); return str(c.containers.run(image='alpine', command=§))"),
    ("import docker", "a = docker.APIClient(); return str(a.exec_start(a.exec_create('web', §)))"),
    ("from podman import PodmanClient", "return str(PodmanClient().containers.get('web').exec_run(§))"),
    (
        "from kubernetes import client\nfrom kubernetes.stream import stream",
        "return stream(client.CoreV1Api().connect_get_namespaced_pod_exec, 'web', 'default', command=§, stdout=True)",
    ),
    (
        "from kubernetes import client, stream",
        "return stream.stream(client.CoreV1Api().connect_post_namespaced_pod_exec, 'web', 'default', command=§)",
    ),
    (
        "from kubernetes_asyncio import client, stream",
        "return str(await client.CoreV1Api(stream.WsApiClient()).connect_get_namespaced_pod_exec('web', 'default', command=§))",
    ),
    ("import spur", "return str(spur.SshShell(hostname='web1').run(§).output)"),
];

/// Commands that a caller gives, or has a part in.
const GIVEN_LINES: &[&str] = &["text", "'cat ' + text", "f'grep {text} /var/log/app.log'"];
const GIVEN_WORDS: &[&str] =
    &["text.split()", "['sh', '-c', text]", "['bash', '-lc', f'cat {text}']", "[text]"];
/// Commands in which a caller chooses at most an argument.
const CLOSED_LINES: &[&str] =
    &["'uptime'", "'cat ' + shlex.quote(text)", "f'git -C {shlex.quote(text)} log -1'"];
const CLOSED_WORDS: &[&str] = &["['uptime']", "['cat', '--', text]", "['grep', '-n', '-e', text, 'app.log']"];

fn python((import, body): Way, command: &str) -> String {
    let body = body.replace('§', &format!("({command})"));
    let body = match body.split_once(": ") {
        Some((with, rest)) if with.starts_with("with ") => {
            format!("{with}:\n        {}", rest.replace("; ", "\n        "))
        }
        _ => body.replace("; ", "\n    "),
    };
    format!(
        "import shlex\n{import}\nfrom mcp.server.fastmcp import FastMCP\n\nmcp = FastMCP('machines')\n\n\n@mcp.tool()\nasync def inspect(text: str) -> str:\n    \"\"\"Shows something of a machine.\"\"\"\n    {body}\n\n\nmcp.run()\n"
    )
}

#[test]
fn lines_of_callers_run_on_other_machines() -> Result<(), PackError> {
    let mut programs = Programs::new();
    for way in LINES {
        programs.extend(GIVEN_LINES.iter().map(|line| ("server.py", python(*way, line), true)));
        programs.extend(CLOSED_LINES.iter().map(|line| ("server.py", python(*way, line), false)));
    }
    check(&programs)
}

#[test]
fn programs_of_callers_run_in_containers() -> Result<(), PackError> {
    let mut programs = Programs::new();
    for way in WORDS {
        programs.extend(GIVEN_WORDS.iter().map(|words| ("server.py", python(*way, words), true)));
        programs.extend(CLOSED_WORDS.iter().map(|words| ("server.py", python(*way, words), false)));
    }
    let run = |settings: &str| {
        let body =
            "return str(docker.from_env().containers.run('python:3.13', ['python', '-c', text]SETTINGS))";
        python(("import docker", ""), "")
            .replace("    \n", &format!("    {}\n", body.replace("SETTINGS", settings)))
    };
    for (settings, is) in [
        ("", true),
        (", mem_limit='1g'", true),
        (", network_mode='bridge'", true),
        (", network_disabled=False", true),
        (", network_disabled=True, volumes={'/srv': {'bind': '/srv'}}", true),
        (", network_disabled=True", false),
        (", network_mode='none', mem_limit='1g', remove=True", false),
    ] {
        programs.push(("server.py", run(settings), is));
    }
    check(&programs)
}

/// Libraries of JavaScript; `§` stands for the command.
const JAVASCRIPT_LINES: &[Way] = &[
    (
        "import { Client } from 'ssh2';",
        "const c = new Client(); c.on('ready', () => c.exec(§, (e, s) => s.resume())); c.connect({ host: 'web1' });",
    ),
    (
        "const { Client } = require('ssh2');",
        "const c = new Client(); c.on('ready', () => { c.exec(§, { pty: true }, (e, s) => s.resume()); }).connect({ host: 'web1' });",
    ),
    ("import ssh2 from 'ssh2';", "const c = new ssh2.Client(); c.exec(§, () => {});"),
    (
        "import { NodeSSH } from 'node-ssh';",
        "const c = new NodeSSH(); await c.connect({ host: 'web1' }); await c.execCommand(§, { cwd: '/srv' });",
    ),
    ("const { NodeSSH } = require('node-ssh');", "await new NodeSSH().execCommand(§);"),
    ("import SSH from 'simple-ssh';", "new SSH({ host: 'web1' }).exec(§, { out: () => {} }).start();"),
    ("import exec from 'ssh-exec';", "exec(§, 'me@web1');"),
    (
        "import { SSMClient, SendCommandCommand } from '@aws-sdk/client-ssm';",
        "await new SSMClient({}).send(new SendCommandCommand({ InstanceIds: ['i-1'], DocumentName: 'AWS-RunShellScript', Parameters: { commands: [§] } }));",
    ),
];
const JAVASCRIPT_WORDS: &[Way] = &[
    (
        "import Docker from 'dockerode';",
        "await new Docker().getContainer('web').exec({ Cmd: §, AttachStdout: true });",
    ),
    (
        "import Docker from 'dockerode';",
        "const d = new Docker(); const box = d.getContainer('web'); const e = await box.exec({ Cmd: § }); await e.start({});",
    ),
    ("const Docker = require('dockerode');", "await new Docker().run('alpine', §, process.stdout);"),
    (
        "import Docker from 'dockerode';",
        "const box = await new Docker().createContainer({ Image: 'alpine', Cmd: § }); await box.start();",
    ),
    (
        "import * as k8s from '@kubernetes/client-node';",
        "const kc = new k8s.KubeConfig(); await new k8s.Exec(kc).exec('default', 'web', 'app', §, process.stdout, null, null, false);",
    ),
];

fn javascript((import, body): Way, command: &str) -> String {
    let body = body.replace('§', command);
    format!(
        "import {{ McpServer }} from '@modelcontextprotocol/sdk/server/mcp.js';\nimport {{ z }} from 'zod';\n{import}\n\nconst server = new McpServer({{ name: 'machines', version: '1.0.0' }});\nserver.registerTool(\n  'inspect',\n  {{ description: 'Shows something of a machine', inputSchema: {{ text: z.string() }} }},\n  async ({{ text }}) => {{\n    {body}\n    return {{ content: [] }};\n  }},\n);\n"
    )
}

#[test]
fn commands_of_callers_run_elsewhere_by_javascript() -> Result<(), PackError> {
    let mut programs = Programs::new();
    for way in JAVASCRIPT_LINES {
        for line in ["text", "'cat ' + text", "`grep ${text} app.log`"] {
            programs.push(("server.ts", javascript(*way, line), true));
        }
        for line in ["'uptime'", "`df -h`", "`git -C ${process.env.REPO} log -1`"] {
            programs.push(("server.ts", javascript(*way, line), false));
        }
    }
    for way in JAVASCRIPT_WORDS {
        for words in ["text.split(' ')", "['sh', '-c', text]", "['bash', '-lc', `cat ${text}`]", "[text]"] {
            programs.push(("server.ts", javascript(*way, words), true));
        }
        for words in ["['uptime']", "['cat', '--', text]", "['grep', '-n', '-e', text, 'app.log']"] {
            programs.push(("server.ts", javascript(*way, words), false));
        }
    }
    check(&programs)
}
