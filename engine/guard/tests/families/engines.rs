//! Engines whose queries read files and the network, loaders that build any object, and programs that a library looks up.

use crate::check::{Programs, check};
use hotcell_guard::PackError;

fn tool(import: &str, body: &str) -> String {
    let body = body.replace("; ", "\n    ");
    format!(
        "{import}\nfrom mcp.server.fastmcp import FastMCP\n\nmcp = FastMCP('data')\n\n\n@mcp.tool()\ndef look(text: str) -> str:\n    \"\"\"Looks something up.\"\"\"\n    {body}\n\n\nmcp.run()\n"
    )
}

#[test]
fn queries_of_callers_reach_files_and_the_network() -> Result<(), PackError> {
    let mut programs = Programs::new();
    let ways = [
        ("import duckdb", "return duckdb.sql(§).df().to_string()"),
        ("import duckdb", "return str(duckdb.query(§).fetchall())"),
        ("import duckdb", "db = duckdb.connect(); return str(db.execute(§).fetchall())"),
        ("import duckdb", "db = duckdb.connect('data.db', read_only=True); return str(db.sql(§))"),
        ("import duckdb", "return str(duckdb.connect('data.db').cursor().execute(§).fetchall())"),
        ("import chdb", "return str(chdb.query(§, 'CSV'))"),
        ("from datafusion import SessionContext", "return str(SessionContext().sql(§).collect())"),
        (
            "from pyspark.sql import SparkSession",
            "return str(SparkSession.builder.appName('x').getOrCreate().sql(§).collect())",
        ),
    ];
    for (import, body) in ways {
        for query in ["text", "'FROM orders WHERE ' + text", "f\"SELECT * FROM '{text}'\""] {
            programs.push(("server.py", tool(import, &body.replace('§', query)), true));
        }
        programs.push(("server.py", tool(import, &body.replace('§', "'SELECT 1'")), false));
    }
    for body in [
        "db = duckdb.connect('data.db', config={'enable_external_access': 'false'}); return str(db.sql(text))",
        "db = duckdb.connect('data.db', config={'enable_external_access': False}); return str(db.sql(text))",
        "db = duckdb.connect('data.db'); db.execute('SET enable_external_access = false'); return str(db.sql(text))",
        "return str(duckdb.connect('data.db').execute('SELECT * FROM t WHERE name = ?', [text]).fetchall())",
        "return str(duckdb.execute('SELECT * FROM t WHERE name = $n', {'n': text}).fetchall())",
    ] {
        programs.push(("server.py", tool("import duckdb", body), false));
    }
    let typescript = |import: &str, body: &str| {
        format!(
            "import {{ FastMCP }} from 'fastmcp';\nimport {{ z }} from 'zod';\n{import}\nconst server = new FastMCP({{ name: 'data', version: '1.0.0' }});\nserver.addTool({{\n  name: 'look', description: 'Looks something up', parameters: z.object({{ text: z.string() }}),\n  execute: async ({{ text }}) => {{ {body} return 'ok'; }},\n}});\n"
        )
    };
    for (import, body) in [
        ("import duckdb from 'duckdb';\nconst db = new duckdb.Database(':memory:');", "db.all(§, () => {});"),
        (
            "import { Database } from 'duckdb-async';\nconst db = await Database.create('data.db');",
            "await db.all(§);",
        ),
        (
            "import { DuckDBInstance } from '@duckdb/node-api';\nconst db = await (await DuckDBInstance.create()).connect();",
            "await db.runAndReadAll(§);",
        ),
    ] {
        for query in ["text", "`FROM orders WHERE ${text}`", "\"SELECT * FROM '\" + text + \"'\""] {
            programs.push(("server.ts", typescript(import, &body.replace('§', query)), true));
        }
        programs.push(("server.ts", typescript(import, &body.replace('§', "'SELECT 1'")), false));
    }
    programs.push(("server.ts", typescript("import { DuckDBInstance } from '@duckdb/node-api';\nconst db = await (await DuckDBInstance.create('d.db', { enable_external_access: 'false' })).connect();", "await db.runAndReadAll(text);"), false));
    check(&programs)
}

#[test]
fn loaders_build_any_object() -> Result<(), PackError> {
    let mut programs = Programs::new();
    for (import, body, is) in [
        ("from ruamel.yaml import YAML", "return str(YAML(typ='unsafe').load(text))", true),
        (
            "from ruamel.yaml import YAML",
            "y = YAML(typ='unsafe', pure=True); return str(list(y.load_all(text)))",
            true,
        ),
        ("import ruamel.yaml", "return str(ruamel.yaml.YAML(typ=['unsafe']).load(text))", true),
        ("import ruamel.yaml as ry", "y = ry.YAML('unsafe'); return str(y.load(text))", true),
        ("import ruamel.yaml", "return str(ruamel.yaml.load(text, Loader=ruamel.yaml.UnsafeLoader))", true),
        ("from ruamel import yaml", "return str(yaml.load(text, Loader=yaml.Loader))", true),
        ("import yaml", "return str(yaml.load(text, Loader=yaml.CLoader))", true),
        ("import yaml", "return str(list(yaml.unsafe_load_all(text)))", true),
        ("import yaml", "return str(yaml.load(text, yaml.CUnsafeLoader))", true),
        ("from ruamel.yaml import YAML", "return str(YAML(typ='safe').load(text))", false),
        ("from ruamel.yaml import YAML", "return str(YAML().load(text))", false),
        ("from ruamel.yaml import YAML", "return str(YAML(typ=['rt', 'string']).load(text))", false),
        ("from ruamel import yaml", "return str(yaml.load(text, Loader=yaml.SafeLoader))", false),
        ("import yaml", "return str(yaml.load(text, Loader=yaml.CSafeLoader))", false),
        ("import yaml", "return str(list(yaml.safe_load_all(text)))", false),
        ("import ruamel.yaml", "y = ruamel.yaml.YAML(typ='safe'); return str(list(y.load_all(text)))", false),
        ("import ruamel.yaml", "return str(ruamel.yaml.round_trip_load(text))", false),
        ("import yaml", "return yaml.dump(text)", false),
    ] {
        programs.push(("server.py", tool(import, body), is));
    }
    check(&programs)
}

#[test]
fn libraries_look_up_programs_that_callers_name() -> Result<(), PackError> {
    let mut programs = Programs::new();
    for (import, body, is) in [
        ("from plumbum import local", "return local[text]()", true),
        ("from plumbum import local", "return local[text]['-l']()", true),
        ("import plumbum", "return plumbum.local[text]('-l')", true),
        ("from plumbum import local", "name, rest = text.split(' ', 1); return local[name](rest)", true),
        ("from plumbum import local", "return local['sh']['-c', text]()", true),
        ("from plumbum import local", "sh = local['bash']; return sh('-c', text)", true),
        ("from plumbum import local", "return local.cmd.sh('-c', text)", true),
        ("from plumbum.cmd import sh", "return sh['-c', text]()", true),
        ("from plumbum import SshMachine", "return SshMachine('web1')[text]()", true),
        ("from plumbum import SshMachine", "m = SshMachine('web1'); return m['sh']('-c', text)", true),
        ("from plumbum import local", "return local['git']('log', '--', text)", false),
        ("from plumbum import local", "return local['git']['log', '--', text]()", false),
        ("from plumbum.cmd import grep", "return grep['-n', '-e', text, 'a.log']()", false),
        ("from plumbum import local", "return local['uptime']()", false),
        ("from plumbum import local", "p = local.path('notes'); return str(p) + text", false),
        (
            "from plumbum import local\nKNOWN = {'a': 'uptime', 'b': 'df'}",
            "return local[KNOWN[text]]()",
            false,
        ),
        ("from plumbum import SshMachine", "return SshMachine('web1')['uptime']()", false),
        (
            "from plumbum import local",
            "if text not in ('df', 'uptime'):\n        raise ValueError(text)\n    return local[text]()",
            false,
        ),
        ("from plumbum import local", "return local.env['LANG'] + text", false),
        ("from plumbum import local", "return local['wc']('-w', '--', text)", false),
    ] {
        programs.push(("server.py", tool(import, body), is));
    }
    check(&programs)
}
