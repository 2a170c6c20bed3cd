//! Effects of commands and methods: code that they execute, programs that they start, files that they write.

use super::{PowerShell, Words, names};
use crate::language::Language;
use crate::report::StepKind;
use crate::rules::{Call, Spot, TextKind};
use crate::value::{HOLE, Names, Origin, Value};
use std::rc::Rc;
use tree_sitter::Node;

/// Parameters of `powershell` that matter here, the ones that are shortened most first.
const SHELL_PARAMETERS: &[&str] = &[
    "encodedcommand",
    "ec",
    "command",
    "windowstyle",
    "noprofile",
    "noninteractive",
    "nologo",
    "executionpolicy",
    "ep",
    "file",
    "sta",
];
/// Commands that start what they are given.
const STARTERS: &[&str] = &[
    "start-process",
    "invoke-item",
    "rundll32",
    "regsvr32",
    "msiexec",
    "cmd",
    "powershell",
    "wscript",
    "cscript",
    "mshta",
    "import-module",
    "installutil",
    "explorer",
    "python",
    "schtasks",
];

impl PowerShell<'_, '_, '_> {
    /// Value that the pipeline gives to a command.
    fn fed(&mut self, node: Node<'_>) -> Option<Value> {
        let before = node.prev_named_sibling().filter(|n| !n.is_extra())?;
        matches!(before.kind(), "command" | "logical_expression" | "pipeline_chain")
            .then(|| self.value(before, 0))
    }

    pub(super) fn told_command(&mut self, node: Node<'_>) {
        let at = (node.start_byte(), node.end_byte());
        let (name, mut words) = self.command(node, 0);
        let fed = self.fed(node);
        self.deletes_home(&name, node, at);
        if words.args.is_empty()
            && let Some(fed) = &fed
        {
            words.args.push(fed.clone());
        }
        // A method of a value in brackets, and a path that begins with a variable, may be pieces to the grammar.
        let written = self.of(node).replace('`', "").to_ascii_lowercase();
        if name == "invoke-expression"
            && (written.contains(".downloadstring") || written.contains(".downloaddata"))
        {
            let fetched = fetched_from(&written);
            match words.args.first_mut().filter(|v| v.as_text().is_none()) {
                Some(first) if !first.origin.has(Origin::NET) => {
                    *first = Value { names: fetched, ..std::mem::take(first) }.with_origin(Origin::NET);
                }
                Some(_) => {}
                None => words
                    .args
                    .insert(0, Value { names: fetched, ..Value::default() }.with_origin(Origin::NET)),
            }
        }
        if matches!(&*name, "invoke-webrequest" | "invoke-restmethod")
            && let Some((_, path)) = written.split_once("-outfile ")
            && let Some(path) = path.split_whitespace().next()
        {
            self.save(&Value::text(path), Value::default().with_origin(Origin::NET));
        }
        self.saves(&name, &words, fed.as_ref());
        self.starts(&name, &words, node);
        if name.is_empty() {
            if let Some(value) = words.all.first().filter(|v| !v.names.iter().any(|n| &**n == "{}")) {
                let value = value.clone();
                self.cx.fact_with(Language::PowerShell, "ps.call_unknown", at, &[value], 0);
            }
            return;
        }
        let context = if words.disguised { Spot::OBFUSCATED } else { 0 };
        let names: [Rc<str>; 1] = [name.as_str().into()];
        let call = Call {
            names: &names,
            method: None,
            receiver: fed.as_ref(),
            args: &words.args,
            kwargs: &words.named,
            context,
        };
        self.cx.call(Language::PowerShell, &call, at);
        match &*name {
            "invoke-expression" => {
                if let Some(value) = words.args.first().cloned() {
                    self.executes(&value, at);
                }
            }
            "powershell" => {
                self.shell(&words.all, at);
                // Typed into another shell, which replaces no variables of this one.
                if let Some(elements) = node.child_by_field_name("command_elements") {
                    let written = self.of(elements);
                    let from = written.find('"').filter(|from| written.len() - from > 20);
                    if let Some(inner) = from.and_then(|from| written[from + 1..].rsplit_once('"')) {
                        let text = Value::text(inner.0);
                        self.executes(&text, at);
                    }
                }
            }
            "cmd" => {
                let rest: Vec<String> = words
                    .all
                    .iter()
                    .skip_while(|v| {
                        !v.as_text()
                            .is_some_and(|t| t.eq_ignore_ascii_case("/c") || t.eq_ignore_ascii_case("/k"))
                    })
                    .skip(1)
                    .map(Value::text_or_hole)
                    .collect();
                self.executes(&Value::text(&rest.join(" ")), at);
            }
            "set-variable" | "new-variable" => {
                if let [key, value, ..] = &words.args[..]
                    && let Some(key) = key.as_whole_text()
                {
                    self.vars.insert(names::variable(key), value.clone());
                }
            }
            "start-process" => self.started(&words, at),
            _ => {
                let mut argv = vec![Value::text(&name)];
                argv.extend(words.all);
                crate::shell::command(self.cx, &argv, at);
            }
        }
    }

    /// Reports `… > PATH` and `… >> PATH`, which are `… | Out-File PATH`.
    pub(super) fn told_redirection(&mut self, node: Node<'_>) {
        let at = (node.start_byte(), node.end_byte());
        let mut cursor = node.walk();
        let target = node.named_children(&mut cursor).find(|n| n.kind() == "redirected_file_name");
        let Some(name) = target.and_then(super::value::last_named) else { return };
        let path = self.value(name, 0);
        // `> $HOME\a.ps1`: the rest of a path may be a piece of its own to the grammar.
        let rest = node.next_named_sibling().filter(|rest| rest.start_byte() == node.end_byte());
        let path = match rest {
            Some(rest) => crate::value::concat(&path, &Value::text(self.of(rest))),
            None => path,
        };
        // An expression is before its redirections; those of a command are among its elements.
        let before = node.parent().and_then(|all| all.prev_named_sibling());
        let is_expression =
            before.is_some_and(|before| matches!(before.kind(), "logical_expression" | "pipeline_chain"));
        let content =
            before.filter(|_| is_expression).map(|before| self.value(before, 0)).unwrap_or_default();
        let names: [Rc<str>; 1] = ["out-file".into()];
        let call = Call {
            names: &names,
            method: None,
            receiver: None,
            args: std::slice::from_ref(&path),
            kwargs: &[("inputobject".into(), content.clone())],
            context: 0,
        };
        self.cx.call(Language::PowerShell, &call, at);
        self.save(&path, Value::default().made_of(&content));
    }

    /// Reports a pipeline that deletes what a listing of the home folder or of a drive meets.
    fn deletes_home(&mut self, name: &str, node: Node<'_>, at: (usize, usize)) {
        let Some(before) =
            node.prev_named_sibling().filter(|_| matches!(name, "remove-item" | "clear-content"))
        else {
            return;
        };
        let written = self.of(before).replace(['\'', '"', '`'], "").to_ascii_lowercase();
        let mut words = written.split_whitespace();
        let lists = words.next().is_some_and(|first| matches!(first, "get-childitem" | "gci" | "ls" | "dir"));
        let wide = words.map(|word| word.trim_end_matches(['*', '\\', '/'])).any(|word| {
            matches!(
                word,
                "$env:userprofile" | "$home" | "~" | "$env:systemdrive" | "$env:homedrive" | "$env:homepath"
            ) || word.len() == 2 && word.ends_with(':')
        });
        if lists && wide {
            self.cx.fact(Language::PowerShell, "ps.deletes_home", at);
        }
    }

    /// `powershell -enc …`, `powershell -c "…"`.
    fn shell(&mut self, argv: &[Value], at: (usize, usize)) {
        let mut rest = argv.iter();
        while let Some(word) = rest.next() {
            let text = word.as_text().unwrap_or("");
            let parameter = names::parameter(text, SHELL_PARAMETERS).filter(|_| text.starts_with(['-', '/']));
            match parameter {
                Some("encodedcommand" | "ec") => {
                    if let Some(encoded) = rest.next() {
                        let plain = crate::decode::apply("base64", encoded)
                            .and_then(|v| crate::decode::apply("utf-16", &v));
                        let plain = plain.unwrap_or_else(|| {
                            Value::default().made_of(encoded).with_origin(Origin::UNPACKED)
                        });
                        let given = std::slice::from_ref(&plain);
                        self.cx.fact_with(Language::PowerShell, "ps.encoded", at, given, 0);
                        self.executes(&plain, at);
                    }
                }
                Some("command") => {
                    let texts: Vec<String> = rest.by_ref().map(Value::text_or_hole).collect();
                    self.executes(&Value::text(&texts.join(" ")), at);
                }
                Some("windowstyle" | "executionpolicy" | "ep" | "file") => drop(rest.next()),
                Some(_) => {}
                None if text.contains(' ') => self.executes(&word.clone(), at),
                None => {}
            }
        }
    }

    /// `Start-Process powershell -ArgumentList '-enc …'`.
    fn started(&mut self, words: &Words, at: (usize, usize)) {
        let named =
            |name: &str| words.named.iter().find(|(k, _)| name.starts_with(&**k)).map(|(_, v)| v.clone());
        let program = named("filepath").or_else(|| words.args.first().cloned()).unwrap_or_default();
        let list = named("argumentlist").or_else(|| words.args.get(1).cloned()).unwrap_or_default();
        let mut argv = Vec::new();
        for item in list.elements().filter(|_| list.as_text().is_none()).unwrap_or_else(|| vec![list.clone()])
        {
            match item.as_text() {
                Some(text) => {
                    argv.extend(text.split_whitespace().map(|word| Value::text(word.trim_matches('"'))));
                }
                None => argv.push(item),
            }
        }
        let name = names::command(program.as_text().unwrap_or(""));
        if name == "powershell" {
            self.shell(&argv, at);
        } else if !name.is_empty() {
            argv.insert(0, Value::text(&name));
            crate::shell::command(self.cx, &argv, at);
        }
    }

    fn executes(&mut self, value: &Value, at: (usize, usize)) {
        if let Some(text) = value.as_text().filter(|t| t.chars().any(|c| c != HOLE && !c.is_whitespace())) {
            let chain = if value.chain.is_empty() { vec!["powershell"] } else { value.chain.clone() };
            let text = text.to_owned();
            self.cx.child(Language::PowerShell, &text, at, &chain);
        }
    }

    pub(super) fn told_method(&mut self, node: Node<'_>) {
        let at = (node.start_byte(), node.end_byte());
        let (names, result, owner, args) = self.invoked(node, 0);
        let call = Call {
            names: &names,
            method: None,
            receiver: Some(&owner),
            args: &args,
            kwargs: &[],
            context: 0,
        };
        self.cx.call(Language::PowerShell, &call, at);
        let last = names.first().map_or("", |n| n.rsplit('.').next().unwrap_or(n)).to_owned();
        match &*last {
            "downloadfile" | "downloadfileasync" => {
                if let Some(path) = args.get(1) {
                    let fetched = Value::default().with_origin(Origin::NET);
                    self.save(&path.clone(), fetched.stepped(StepKind::Source, "downloadfile", at));
                }
            }
            "writeallbytes" | "writealltext" => {
                if let [path, content, ..] = &args[..] {
                    self.save(&path.clone(), content.clone());
                }
            }
            "start" | "shellexecute" | "exec" | "loadfile" | "loadfrom" | "create" | "run" => {
                self.ran(&args, node);
                if last != "start" {
                    return;
                }
                if let Some(name) = args.first().and_then(Value::as_text).map(names::command)
                    && name == "powershell"
                {
                    let rest = args.get(1).and_then(Value::as_text).unwrap_or("").to_owned();
                    let argv: Vec<Value> = rest.split_whitespace().map(Value::text).collect();
                    self.shell(&argv, at);
                }
            }
            "invokescript" | "addscript" => {
                if let Some(value) = args.first() {
                    self.executes(&value.clone(), at);
                }
            }
            _ => {
                // `[scriptblock]::Create(text)`.
                if names.iter().any(|n| &**n == "scriptblock.create")
                    && let Some(value) = args.first()
                {
                    self.executes(&value.clone(), at);
                }
            }
        }
        if let Some(text) = result.as_text().filter(|_| !result.chain.is_empty()).map(str::to_owned) {
            self.cx.text(TextKind::String, &text, at, &result.chain.clone());
        }
    }

    /// Commands that write a file.
    fn saves(&mut self, name: &str, words: &Words, fed: Option<&Value>) {
        let named = |names: &[&str]| {
            words
                .named
                .iter()
                .find(|(k, _)| names.iter().any(|n| n.starts_with(&**k) && k.len() > 1))
                .map(|(_, v)| v)
        };
        let saved = match name {
            "invoke-webrequest" | "invoke-restmethod" => named(&["outfile"]).map(|path| (path, Origin::NET)),
            "start-bitstransfer" => {
                named(&["destination"]).or_else(|| words.args.get(1)).map(|path| (path, Origin::NET))
            }
            "certutil" | "bitsadmin" => words.args.last().map(|path| (path, Origin::NET)),
            "set-content" | "add-content" | "out-file" => named(&["path", "filepath", "literalpath"])
                .or_else(|| words.args.first())
                .map(|path| (path, Origin::default())),
            _ => None,
        };
        if let Some((path, origin)) = saved {
            let content = named(&["value"]).or(fed).cloned().unwrap_or_default();
            self.save(&path.clone(), Value::default().made_of(&content).with_origin(origin));
        }
    }

    fn save(&mut self, path: &Value, content: Value) {
        let key = path.text_or_hole().to_ascii_lowercase();
        let key =
            key.trim_matches(['"', '\'', ' ']).trim_start_matches(".\\").trim_start_matches("./").to_owned();
        if key.chars().filter(char::is_ascii_alphanumeric).count() >= 3 && self.saved.len() < 256 {
            self.saved.push((key, content));
        } else if let Some(name) = path.names.first().filter(|n| n.starts_with('$')) {
            self.saved.push((name.to_string(), content));
        }
    }

    /// Commands that start a file that was written before.
    fn starts(&mut self, name: &str, words: &Words, node: Node<'_>) {
        let itself = node.child_by_field_name("command_name").map(|n| match self.value(n, 0) {
            value if value.as_text().is_some() || !value.names.is_empty() => value,
            _ => Value::text(self.of(n)),
        });
        let mut given: Vec<Value> = itself.into_iter().collect();
        if STARTERS.contains(&name) || name.is_empty() {
            given.extend(words.all.iter().cloned());
            given.push(Value::text(&self.of(node).to_ascii_lowercase()));
        }
        self.ran(&given, node);
    }

    fn ran(&mut self, given: &[Value], node: Node<'_>) {
        if self.saved.is_empty() {
            return;
        }
        let at = (node.start_byte(), node.end_byte());
        let texts: Vec<String> = given
            .iter()
            .flat_map(|v| {
                let items = v.elements().filter(|_| v.as_text().is_none()).unwrap_or_else(|| vec![v.clone()]);
                items.into_iter().take(64).map(|v| match v.names.first() {
                    Some(name) if v.as_text().is_none() => name.to_string(),
                    _ => v.text_or_hole().to_ascii_lowercase(),
                })
            })
            .collect();
        let found = self.saved.iter().find(|(key, _)| texts.iter().any(|t| t.contains(key.as_str())));
        if let Some((_, content)) = found {
            let content = content.clone();
            self.cx.fact_with(Language::PowerShell, "ps.saved_run", at, &[content], 0);
        }
    }
}

/// Addresses in a command.
fn fetched_from(written: &str) -> Names {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ')');
    let each = written.match_indices("http").map(|(at, _)| written[at..].split(ends).next().unwrap_or(""));
    each.filter(|url| url.contains("://")).take(4).map(|url| format!("fetch:{url}").into()).collect()
}
