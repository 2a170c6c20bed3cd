//! Tests of name resolution in scopes, in both directions.

use crate::{Artifact, Limits, Pack, Verdict, scan};

#[test]
fn names_belong_to_their_scopes() -> Result<(), crate::PackError> {
    let pack = Pack::builtin()?;
    let run = "const { exec } = require('child_process');";
    let line = "'rm -rf /home'";
    for (dangerous, source) in [
        (true, format!("{run} exec({line});")),
        (false, format!("function exec(x) {{ return x; }} exec({line});")),
        (false, format!("{run} function f(exec) {{ exec({line}); }}")),
        (false, format!("{run} {{ const exec = (x) => x; exec({line}); }}")),
        (true, format!("{run} {{ const exec = (x) => x; }} exec({line});")),
        (true, format!("function f() {{ const e = require('child_process').exec; return e({line}); }}")),
        (
            false,
            format!(
                "function f() {{ const e = require('child_process').exec; }} function g(e) {{ e({line}); }}"
            ),
        ),
        (
            true,
            format!(
                "function f() {{ let e = console.log; }} let e = require('child_process').exec; e({line});"
            ),
        ),
        (
            true,
            format!(
                "let c; function f() {{ c = require('child_process'); }} function g() {{ c.exec({line}); }}"
            ),
        ),
        (true, format!("c = require('child_process'); function g() {{ c.exec({line}); }}")),
        (true, format!("(function (r) {{ r('child_process').exec({line}); }})(require);")),
        (true, format!("(function (c) {{ c.exec({line}); }}).call(this, require('child_process'));")),
        (true, format!("((c) => {{ c.exec({line}); }})(require('child_process'));")),
        (true, format!("define(function (require) {{ require('child_process').exec({line}); }});")),
        (false, format!("function require(x) {{ return console; }} require('child_process').exec({line});")),
        (
            true,
            format!("import * as p from 'child_process'; function f(x) {{ const q = p; q.exec({line}); }}"),
        ),
        (true, format!("try {{ x(); }} catch (p) {{ p = require('child_process'); p.exec({line}); }}")),
        (true, format!("var p = require('child_process'); globalThis.p.exec({line});")),
        (false, "function eval2(eval) { eval(window.name); }".to_owned()),
    ] {
        let report = scan(&pack, &Limits::default(), &Artifact::new("a.js", source.as_bytes()));
        assert_eq!(report.verdict == Verdict::Quarantine, dangerous, "{source}\n{:?}", report.findings);
    }
    Ok(())
}

#[test]
fn templates_of_a_shell_are_read_as_its_command_lines() -> Result<(), crate::PackError> {
    let pack = Pack::builtin()?;
    for (dangerous, source) in [
        (true, "await $`rm -rf /home`;"),
        (true, "$.sync`rm -rf /home`"),
        (true, "$({ shell: true })`rm -rf /home`"),
        (true, "await Bun.$`rm -rf /home`"),
        (true, "const x = '/home'; await $`rm -rf ${x}`"),
        (true, "import { $ as sh } from 'zx'; await sh`rm -rf /home`"),
        (true, "$`sh -c ${'rm -rf /home'}`"),
        (false, "const x = f(); $`echo ${x} x`"),
        (false, "$`echo ${'; rm -rf /home'}`"),
        (false, "html`<b>`; a$`rm -rf /home`"),
        (false, "const r = new RegExp(`^${x}$`), s = '`; rm -rf /home; `';"),
        (false, "`$`; `rm -rf /home`"),
        (false, "// $`rm -rf /home`"),
    ] {
        let report = scan(&pack, &Limits::default(), &Artifact::new("a.mjs", source.as_bytes()));
        assert_eq!(report.verdict == Verdict::Quarantine, dangerous, "{source}\n{:?}", report.findings);
    }
    Ok(())
}

#[test]
fn sources_of_exports_are_read_like_other_texts() -> Result<(), crate::PackError> {
    let pack = Pack::builtin()?;
    // const c = require('child_process'); c.execSync('rm -rf /home');
    let base64 = "Y29uc3QgYyA9IHJlcXVpcmUoJ2NoaWxkX3Byb2Nlc3MnKTsgYy5leGVjU3luYygncm0gLXJmIC9ob21lJyk7";
    for (verdict, source) in [
        (Verdict::Allow, "export * from './x.js';".to_owned()),
        (Verdict::Allow, "export { a } from './x.js';".to_owned()),
        (Verdict::Quarantine, format!("export * from 'data:text/javascript;base64,{base64}';")),
        (Verdict::Quarantine, format!("import 'data:text/javascript;base64,{base64}';")),
        (Verdict::Allow, "import a from 'data:text/javascript,export default 1';".to_owned()),
        (Verdict::Quarantine, format!("export {{ a }} from 'data:text/javascript;base64,{base64}';")),
    ] {
        let report = scan(&pack, &Limits::default(), &Artifact::new("a.mjs", source.as_bytes()));
        assert_eq!(report.verdict, verdict, "{source}\n{:?}", report.findings);
    }
    Ok(())
}
