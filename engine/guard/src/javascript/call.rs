//! Calls: reports them, and follows the code that they execute.

use super::{Js, packages, span};
use crate::executed::Executed;
use crate::feed::Registry;
use crate::report::HandedSource;
use crate::value::{Const, HOLE, Origin, Value};
use oxc_ast::ast::{Argument, Expression, TaggedTemplateExpression};
use oxc_span::Span;
use std::rc::Rc;

use crate::language::Language;
use crate::rules::{Call, Spot};

/// True for `$`, its methods, and what it returns for settings.
fn is_shell_tag(tag: &Expression<'_>) -> bool {
    match tag.get_inner_expression() {
        Expression::Identifier(name) => name.name == "$",
        Expression::StaticMemberExpression(member) => {
            member.property.name == "$" || is_shell_tag(&member.object)
        }
        Expression::CallExpression(call) => is_shell_tag(&call.callee),
        _ => false,
    }
}

/// True for a command line whose next word is code: `sh -c `, `python3 -c `, `node -e `, `eval `.
fn takes_code(line: &str) -> bool {
    let mut words = line.split_whitespace().rev();
    let (Some(flag), true) = (words.next(), line.ends_with(char::is_whitespace)) else { return false };
    if flag == "eval" {
        return true;
    }
    let program = words.next().map(crate::rules::basename).unwrap_or_default();
    let by_letter = matches!(flag, "-c" | "-lc" | "-ic" | "-ec")
        && (crate::rules::is_shell(program) || program.starts_with("python"));
    by_letter
        || matches!(flag, "-e" | "--eval" | "-p" | "--print")
            && matches!(program, "node" | "bun" | "perl" | "ruby" | "php")
}

impl Js<'_, '_, '_> {
    /// Reports a call in the source.
    pub(super) fn told(&mut self, callee: &Expression<'_>, arguments: &[Argument<'_>], at: Span, new: bool) {
        let (mut callee, receiver, method) = self.callee(callee);
        let args = self.arguments(arguments);
        if new {
            callee.names = callee
                .names
                .iter()
                .filter(|n| !n.starts_with('?'))
                .map(|n| if &**n == "Function" { n.clone() } else { format!("new {n}").into() })
                .collect();
        }
        self.invoke(&callee, receiver.as_ref(), method.as_deref(), &args, at);
    }

    /// Reports a call and follows the code that it runs.
    pub(super) fn invoke(
        &mut self,
        callee: &Value,
        receiver: Option<&Value>,
        method: Option<&str>,
        args: &[Value],
        at: Span,
    ) {
        // `f.call(this, x)`, `f.apply(this, [x])` and `Reflect.apply(f, this, [x])` are `f(x)`.
        if let (Some(owner), Some("call" | "apply")) =
            (receiver.filter(|r| r.names.iter().any(|n| !n.starts_with('?'))), method)
        {
            let rest = match method {
                Some("call") => args.get(1..).unwrap_or(&[]).to_vec(),
                _ => args.get(1).and_then(Value::elements).unwrap_or_default(),
            };
            self.invoke(&owner.clone(), None, None, &rest, at);
        }
        if callee.is_named("Reflect.apply") || callee.is_named("Reflect.construct") {
            let rest = args
                .iter()
                .skip(1)
                .find_map(|v| matches!(v.known, Some(Const::List(_))).then(|| v.elements()).flatten())
                .or_else(|| args.last().map(|list| vec![Value::default().made_of(list)]))
                .unwrap_or_default();
            if let Some(target) = args.first() {
                self.invoke(&target.clone(), None, None, &rest, at);
            }
        }
        let names: Vec<Rc<str>> = callee.names.iter().filter(|n| !n.starts_with('?')).cloned().collect();
        let mut context = if callee.origin.has(Origin::COMPUTED) || callee.origin.has(Origin::DECODED) {
            Spot::OBFUSCATED
        } else {
            0
        };
        if self.sends_silently(at) {
            context |= Spot::SILENT;
        }
        let options = args.iter().rev().find_map(|v| match &v.known {
            Some(Const::Map(pairs)) => Some(
                pairs.iter().filter_map(|(k, v)| Some((Rc::from(k.as_text()?), v.clone()))).collect::<Vec<(
                    Rc<str>,
                    Value,
                )>>(
                ),
            ),
            _ => None,
        });
        let kwargs = options.unwrap_or_default();
        // A constant last part of a path leads to one file, whatever folder was met before it.
        let wide = args.iter().any(|arg| arg.origin.has(super::reach::MET));
        let narrowed: Vec<Value> =
            if wide { args.iter().map(super::reach::narrowed).collect() } else { Vec::new() };
        let args = if wide { narrowed.as_slice() } else { args };
        let call = Call {
            names: &names,
            method: if names.is_empty() { method } else { None },
            receiver,
            args,
            kwargs: &kwargs,
            context,
        };
        self.cx.call(Language::JavaScript, &call, span(at));
        self.passes_to_files(&names, args, at);
        if matches!(
            method,
            Some(
                "tool"
                    | "registerTool"
                    | "addTool"
                    | "defineTool"
                    | "prompt"
                    | "registerPrompt"
                    | "addPrompt"
                    | "resource"
                    | "registerResource"
                    | "addResource"
                    | "addResourceTemplate"
            )
        ) {
            for text in args.iter().filter(|value| value.as_text().is_some()) {
                let text = std::slice::from_ref(text);
                self.cx.fact_with(Language::JavaScript, "model.text", span(at), text, 0);
            }
        }
        // Descriptions of fields in a schema.
        let of_schema = |value: &Value| {
            value.names.iter().any(|name| name.starts_with("zod") || name.starts_with("valibot"))
        };
        if matches!(method, Some("describe" | "description" | "meta")) && receiver.is_some_and(of_schema) {
            self.cx.fact_with(Language::JavaScript, "model.text", span(at), args.get(..1).unwrap_or(&[]), 0);
        }
        self.piped(method, receiver, args);
        self.flows_into(&names, receiver, method, args, at);
        self.requests_given(&names, method, args, at);
        self.options_given(&names, args, at);
        let of_name = |name: &Rc<str>| crate::rules::remote_of_javascript(name, args, &kwargs);
        if let Some(command) = names.iter().find_map(of_name) {
            let command = std::slice::from_ref(&command);
            self.cx.fact_with(Language::JavaScript, "remote.command", span(at), command, 0);
        }
        let pushed = |name: &Rc<str>| crate::rules::pushed_by(name, args, &kwargs);
        if let Some(address) = names.iter().find_map(pushed) {
            self.pushed(address, at);
        }
        self.hidden_ways(&names, receiver, method, args, context, at);
        for name in &names {
            if let Some((function, args)) = packages::as_of_node(name, args) {
                self.invoke(&Value::name(function), None, None, &args, at);
            }
            self.runs(name, args, &kwargs, at);
            self.saves(name, args);
            self.starts(name, args, at);
        }
        if names.is_empty()
            && let Some(name) = method
        {
            self.runs(&format!("?.{name}"), args, &kwargs, at);
        }
    }

    /// Reads a template that is tagged `$`, of packages that start a shell: with settings of the tag, as in `$.sync` and `$({ … })`. They quote what is
    /// put in; what is not known is a hole.
    pub(super) fn shell_template(&mut self, it: &TaggedTemplateExpression<'_>, tag: &Value) {
        if !is_shell_tag(&it.tag) && !tag.names.iter().any(|name| name.ends_with(".$")) {
            return;
        }
        if let Expression::CallExpression(settings) = it.tag.get_inner_expression()
            && let Some(options) = self.arguments(&settings.arguments).first()
            && packages::property(options, "shell").is_some_and(|shell| shell.truth() != Some(false))
        {
            let text = self.template(&it.quasi);
            self.invoke(&Value::name("child_process.exec"), None, None, &[text], it.quasi.span);
        }
        let mut line = String::new();
        for (at, quasi) in it.quasi.quasis.iter().enumerate() {
            line.push_str(quasi.value.cooked.as_ref().unwrap_or(&quasi.value.raw));
            if let Some(expression) = it.quasi.expressions.get(at) {
                let value = self.value(expression);
                match value.as_whole_text() {
                    Some(text) => {
                        line.push('\'');
                        line.push_str(&text.replace('\'', "'\\''"));
                        line.push('\'');
                    }
                    None => {
                        // `bash -c ${x}`: quoting makes it one word, which is code.
                        if takes_code(&line) {
                            self.invoke(
                                &Value::name("child_process.exec"),
                                None,
                                None,
                                &[value],
                                it.quasi.span,
                            );
                        }
                        line.push(HOLE);
                    }
                }
            }
        }
        self.cx.child(Language::Bash, &line, span(it.quasi.span), &["shell"]);
    }

    /// Obscure ways to reach a function.
    fn hidden_ways(
        &mut self,
        names: &[Rc<str>],
        receiver: Option<&Value>,
        method: Option<&str>,
        args: &[Value],
        context: u32,
        at: Span,
    ) {
        let named = |name: &str| names.iter().any(|n| &**n == name);
        if named("Function")
            && (method == Some("constructor") || context & Spot::OBFUSCATED != 0 && receiver.is_some())
        {
            self.fact("js.constructor", at);
        }
        if named("require") {
            let module = args.first();
            // Whatever its extension: node reads unknown files as JavaScript.
            let by_ending = |path: &str| {
                let known = ["js", "mjs", "cjs", "json", "node", "jsx", "ts", "mts", "cts", "tsx"];
                path.rsplit_once('.').is_some_and(|(_, ending)| known.contains(&ending))
            };
            let path = module.and_then(Value::as_whole_text);
            if let Some(path) = path {
                self.cx.module(Registry::Npm, path, span(at));
            }
            if let Some(path) = path.filter(|path| path.starts_with(['.', '/']) && !by_ending(path)) {
                let path = path.to_owned();
                self.cx.hand(HandedSource::File(path), Executed::As(Language::JavaScript));
            }
            let sensitive = module.and_then(Value::as_whole_text).is_some_and(|m| {
                matches!(
                    super::packages::module(m),
                    "child_process" | "vm" | "worker_threads" | "cluster" | "net" | "dgram"
                )
            });
            let computed =
                module.is_some_and(|m| m.origin.has(Origin::COMPUTED) || m.origin.has(Origin::DECODED));
            if sensitive && (computed || matches!(method, Some("_load" | "require"))) {
                self.fact("js.require_hidden", at);
            }
        }
        if matches!(method, Some("del" | "delete" | "truncate"))
            && args.is_empty()
            && receiver.is_some_and(|r| {
                r.names.iter().any(|n| matches!(&**n, "knex()" | "db()" | "knex.table()" | "knex.from()"))
            })
        {
            self.fact("orm.delete_all", at);
        }
    }

    fn runs(&mut self, name: &str, args: &[Value], kwargs: &[(Rc<str>, Value)], at: Span) {
        let place = span(at);
        let name = name.strip_prefix("new ").unwrap_or(name);
        let shell = kwargs.iter().any(|(k, v)| &**k == "shell" && v.truth() != Some(false));
        match name {
            "eval"
            | "vm.runInThisContext"
            | "vm.runInNewContext"
            | "vm.runInContext"
            | "vm.Script"
            | "setTimeout"
            | "setInterval"
            | "setImmediate"
            | "execScript" => self.executes(Language::JavaScript, args.first(), at),
            "Function" => self.executes(Language::JavaScript, args.last(), at),
            "child_process.exec" | "child_process.execSync" | "shelljs.exec" | "execa.command" => {
                self.executes(Language::Bash, args.first(), at);
            }
            "child_process.spawn"
            | "child_process.spawnSync"
            | "child_process.execFile"
            | "child_process.execFileSync" => {
                let Some(program) = args.first().cloned() else { return };
                if shell
                    || args.get(1).is_none_or(|v| !matches!(v.known, Some(Const::List(_))))
                        && program.as_text().is_some_and(|t| t.contains(' '))
                {
                    self.executes(Language::Bash, Some(&program), at);
                } else if program.as_text().is_some() {
                    let mut argv = vec![program];
                    argv.extend(args.get(1).and_then(Value::elements).unwrap_or_default());
                    crate::shell::command(self.cx, &argv, place);
                }
            }
            _ => {
                if name.ends_with(".query")
                    || name.ends_with(".execute")
                    || name.ends_with(".raw")
                    || name.ends_with(".$executeRawUnsafe")
                    || name.ends_with(".$queryRawUnsafe")
                {
                    self.executes(
                        Language::Sql,
                        args.first().filter(|v| v.as_text().is_some_and(looks_like_sql)),
                        at,
                    );
                }
            }
        }
    }

    fn executes(&mut self, language: Language, text: Option<&Value>, at: Span) {
        if text.is_some_and(|value| value.origin.has(Origin::INPUT)) {
            self.cx.hand(HandedSource::Input, Executed::As(language));
        }
        let Some(value) = text.filter(|v| v.names.is_empty()) else { return };
        if let Some(text) = value.as_text() {
            let chain = if value.chain.is_empty() { vec![language.name()] } else { value.chain.clone() };
            self.cx.child(language, text, span(at), &chain);
        }
    }

    /// `owner.name = value`.
    pub(super) fn stored(&mut self, owner: &Value, name: &str, value: &Value, at: Span) {
        if !self.emit {
            return;
        }
        let known =
            owner.names.iter().filter(|own| !own.starts_with("?this.") && !own.starts_with("?class."));
        let names: Vec<String> = known.map(|own| format!("set:{own}.{name}")).collect();
        for fact in names {
            self.cx.fact_with(Language::JavaScript, &fact, span(at), std::slice::from_ref(value), 0);
        }
        self.sets_script(owner, name, value, at);
    }
}

fn looks_like_sql(text: &str) -> bool {
    let mut text = text.trim_start();
    // A comment before it, or MySQL's executable comments.
    while let Some(rest) = text.strip_prefix("/*") {
        text = match rest.strip_prefix('!') {
            Some(code) => code.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start(),
            None => rest.split_once("*/").map_or("", |(_, after)| after.trim_start()),
        };
    }
    let first: String =
        text.chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase();
    matches!(
        first.as_str(),
        "select"
            | "insert"
            | "update"
            | "delete"
            | "drop"
            | "truncate"
            | "alter"
            | "create"
            | "with"
            | "grant"
            | "execute"
            | "prepare"
            | "copy"
            | "attach"
            | "merge"
            | "replace"
            | "begin"
            | "do"
            | "exec"
            | "call"
            | "declare"
            | "explain"
            | "pragma"
            | "load"
            | "vacuum"
            | "install"
            | "bulk"
    )
}
