//! Values of Go programs on their way from where they come in to what executes, opens or sends them.
//!
//! Functions are walked as often as summaries of parameters and results need to settle, a few times at most; a
//! variable holds whatever any assignment in its function gave it.

use super::Tree;
use crate::decode;
use crate::hosts::{Asked, Danger};
use crate::report::StepKind;
use crate::rules::Call;
use crate::value::{Origin, Value, concat};
use rustc_hash::FxHashMap;
use tree_sitter::Node;

use crate::language::Language;

/// Number of walks that learn.
pub(super) const WALKS: usize = 3;
/// Maximum nesting of an expression.
const MAX_DEPTH: usize = 64;
/// Maximum number of elements of a list.
const MAX_ITEMS: usize = 64;
/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 200;
/// Origins whose way is kept.
const TRACKED: Origin = Origin(
    Origin::NET.0
        | Origin::REQUEST.0
        | Origin::SECRET.0
        | Origin::ENV.0
        | Origin::DECODED.0
        | Origin::UNPACKED.0
        | Origin::INPUT.0,
);

/// Types of parameters that hold what a client of a server, or the caller of a tool, sends.
const REQUESTS: &[&str] = &[
    "http.Request",
    "gin.Context",
    "echo.Context",
    "fiber.Ctx",
    "fasthttp.RequestCtx",
    "mcp.CallToolRequest",
    "mcp.GetPromptRequest",
    "mcp.ReadResourceRequest",
];

/// Knowledge of the walks about the functions of a file.
#[derive(Default)]
pub(super) struct Flow {
    /// Function that is being walked.
    function: String,
    /// Values of variables, by function; those of the file have an empty one.
    vars: FxHashMap<String, FxHashMap<String, Value>>,
    /// Names of parameters.
    params: FxHashMap<String, Vec<String>>,
    results: FxHashMap<String, Value>,
    /// Functions without a name, by the value that stands for them: where they are, and their parameters.
    literals: FxHashMap<String, (String, Vec<String>)>,
    /// Contents of files by their known paths.
    saved: FxHashMap<String, Value>,
}

impl Tree<'_, '_, '_> {
    /// A walk that learns.
    pub(super) fn learnt(&mut self, node: Node<'_>) {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "function_declaration" | "method_declaration" => {
                self.enters(node);
                if let Some(list) = field("parameters") {
                    self.parameters(list, true);
                }
            }
            "func_literal" => {
                if let Some(list) = field("parameters") {
                    let names = self.parameters(list, false);
                    self.go.literals.insert(literal(node), (self.go.function.clone(), names));
                }
            }
            // A channel holds what is sent to it.
            "send_statement" => {
                if let (Some(channel), Some(sent)) = (field("channel"), field("value")) {
                    let value = Value::default().made_of(&self.go_value(sent, 0));
                    self.hold(channel, value);
                }
            }
            "receive_statement" => {
                if let (Some(left), Some(right)) = (field("left"), field("right")) {
                    self.assigned(left, right);
                }
            }
            "var_declaration" | "const_declaration"
                if node.parent().is_some_and(|above| above.kind() == "source_file") =>
            {
                self.go.function.clear();
            }
            "short_var_declaration" | "assignment_statement" => {
                if let (Some(left), Some(right)) = (field("left"), field("right")) {
                    self.assigned(left, right);
                }
            }
            "var_spec" | "const_spec" => {
                if let Some(right) = field("value") {
                    let mut cursor = node.walk();
                    let names: Vec<Node<'_>> = node.children_by_field_name("name", &mut cursor).collect();
                    self.bind_names(&names, right);
                }
            }
            "range_clause" => {
                if let (Some(left), Some(right)) = (field("left"), field("right")) {
                    let value = Value::default().made_of(&self.go_value(right, 0));
                    for name in children(left) {
                        self.hold(name, value.clone());
                    }
                }
            }
            "return_statement" => {
                let value = node.named_child(0).map(|list| self.go_value(list, 0)).unwrap_or_default();
                let function = self.go.function.clone();
                let value = match self.go.results.get(&function) {
                    Some(older) => merged(value, older),
                    None => value,
                };
                self.go.results.insert(function, value);
            }
            "call_expression" => self.learn_call(node),
            _ => {}
        }
    }

    /// Notes the function that the following nodes belong to.
    pub(super) fn enters(&mut self, node: Node<'_>) {
        self.go.function = node.child_by_field_name("name").map_or("", |name| self.of(name)).to_owned();
    }

    fn parameters(&mut self, list: Node<'_>, is_named: bool) -> Vec<String> {
        let mut names = Vec::new();
        let mut of_tool = false;
        let of_method = list.parent().is_some_and(|above| above.kind() == "method_declaration");
        let mut behind_context = false;
        for parameter in
            children(list).into_iter().filter(|node| node.kind().ends_with("parameter_declaration"))
        {
            let kind = parameter.child_by_field_name("type").map_or("", |kind| self.of(kind));
            let is_request = REQUESTS.iter().any(|name| kind.trim_start_matches('*').ends_with(name));
            // Behind the request of a tool are its decoded arguments.
            let is_argument = of_tool && !kind.ends_with("Context");
            of_tool |= is_request && kind.contains("mcp.");
            // A method of a service of gRPC: `(ctx context.Context, req *pb.RunRequest)`.
            let is_message = kind.starts_with('*') && kind.contains('.') && kind.ends_with("Request");
            let is_request = is_request || is_argument || of_method && behind_context && is_message;
            behind_context = kind == "context.Context";
            let is_listening = matches!(kind, "net.Listener" | "net.PacketConn");
            let mut cursor = parameter.walk();
            for name in parameter.children_by_field_name("name", &mut cursor) {
                names.push(self.of(name).to_owned());
                if is_listening {
                    self.hold(name, Value::name("net.Listen()"));
                }
                if is_request {
                    let at = (name.start_byte(), name.end_byte());
                    let value = Value::default().with_origin(Origin::REQUEST);
                    self.hold(name, value.stepped(StepKind::Source, self.of(name), at));
                }
            }
        }
        if is_named {
            let function = self.go.function.clone();
            self.go.params.insert(function, names.clone());
        }
        names
    }

    fn assigned(&mut self, left: Node<'_>, right: Node<'_>) {
        let names = children(left);
        self.bind_names(&names, right);
    }

    /// Binds names to a list of expressions, or to the results of one.
    fn bind_names(&mut self, names: &[Node<'_>], right: Node<'_>) {
        let values = if right.kind() == "expression_list" { children(right) } else { vec![right] };
        if values.len() == names.len() {
            for (name, value) in names.iter().zip(values) {
                let value = self.go_value(value, 0);
                self.hold(*name, value);
            }
            return;
        }
        let value = values.first().map(|value| self.go_value(*value, 0)).unwrap_or_default();
        for name in names {
            if !matches!(self.of(*name), "_" | "err" | "ok") {
                self.hold(*name, value.clone());
            }
        }
    }

    /// Adds a value to those of a variable, or of the variable that a target belongs to.
    fn hold(&mut self, target: Node<'_>, value: Value) {
        let Some(name) = self.root_of(target, 0) else { return };
        if name == "_" {
            return;
        }
        let at = (target.start_byte(), target.end_byte());
        let value = stepped(value, StepKind::Bound, &name, at);
        let vars = self.go.vars.entry(self.go.function.clone()).or_default();
        let whole = target.kind() == "identifier";
        match vars.get_mut(&name) {
            Some(older) if whole => *older = merged(value, older),
            // A member or an element of it.
            Some(older) => *older = std::mem::take(older).made_of(&value),
            None if whole => drop(vars.insert(name, value)),
            None => drop(vars.insert(name, Value::default().made_of(&value))),
        }
    }

    /// Variable that an expression belongs to: `x`, `x.y`, `x[0]`, `&x`, `*x`, `x[:]`.
    fn root_of(&self, node: Node<'_>, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        match node.kind() {
            "identifier" => Some(self.of(node).to_owned()),
            "selector_expression"
            | "index_expression"
            | "slice_expression"
            | "unary_expression"
            | "parenthesized_expression" => {
                let inner = node.child_by_field_name("operand").or_else(|| node.named_child(0))?;
                self.root_of(inner, depth + 1)
            }
            _ => None,
        }
    }

    /// Learns the values that a call puts into its arguments, and those that it hands to the function that it calls.
    fn learn_call(&mut self, node: Node<'_>) {
        let Some(function) = node.child_by_field_name("function") else { return };
        let nodes = node.child_by_field_name("arguments").map(children).unwrap_or_default();
        let at = (node.start_byte(), node.end_byte());
        let last = match function.kind() {
            "selector_expression" => function.child_by_field_name("field").map_or("", |field| self.of(field)),
            _ => self.of(function),
        };
        let receiver = function
            .child_by_field_name("operand")
            .filter(|_| function.kind() == "selector_expression")
            .map(|operand| self.go_value(operand, 0))
            .unwrap_or_default();
        let name = self.name_of(function);
        match (&*name, last) {
            // A buffer that is filled from a connection, a value that is decoded from a body.
            (_, "Read" | "ReadFull" | "Decode" | "ReadAt") if receiver.origin.has(TRACKED) => {
                if let Some(target) = nodes.first() {
                    self.hold_in(*target, &receiver);
                }
            }
            ("encoding/json.Unmarshal" | "io.ReadFull" | "fmt.Sscan" | "fmt.Sscanf" | "fmt.Fscan", _) => {
                if let [from, rest @ ..] = &nodes[..] {
                    let value = self.go_value(*from, 0);
                    if let Some(target) = rest.first() {
                        self.hold_in(*target, &value);
                    }
                }
            }
            // A buffer that is filled with a message from anyone.
            (_, "ReadFrom" | "ReadFromUDP" | "ReadFromUDPAddrPort" | "ReadMsgUDP")
                if receiver.names.iter().any(|name| is_listener(name)) =>
            {
                let message = self.source(Origin::REQUEST, "message", node);
                if let Some(target) = nodes.first() {
                    self.hold_in(*target, &message);
                }
            }
            // A buffer that is written to.
            (_, "WriteString" | "Write" | "ReadFrom") if function.kind() == "selector_expression" => {
                let written = nodes.first().map(|node| self.go_value(*node, 0)).unwrap_or_default();
                let holder = function.child_by_field_name("operand");
                if let Some(holder) = holder.filter(|_| written.origin.has(TRACKED)) {
                    self.hold_in(holder, &written);
                }
            }
            ("fmt.Fprint" | "fmt.Fprintf" | "fmt.Fprintln", _) => {
                if let [target, rest @ ..] = &nodes[..] {
                    let all: Vec<Value> = rest.iter().map(|node| self.go_value(*node, 0)).collect();
                    let written = all.iter().fold(Value::default(), Value::made_of);
                    if written.origin.has(TRACKED) {
                        self.hold_in(*target, &written);
                    }
                }
            }
            ("io.Copy", _) => {
                if let [target, from, ..] = &nodes[..] {
                    let value = self.go_value(*from, 0);
                    self.hold_in(*target, &value);
                    self.save(*target, value);
                }
            }
            ("os.WriteFile" | "io/ioutil.WriteFile", _) => {
                if let [path, content, ..] = &nodes[..] {
                    let (path, content) = (self.go_value(*path, 0), self.go_value(*content, 0));
                    if let Some(path) = file_key(&path) {
                        self.go.saved.insert(path, stepped(content, StepKind::Passed, "os.WriteFile", at));
                    }
                }
            }
            _ => {}
        }
        self.teach_literals(function, &nodes);
        // A function of the file learns its arguments. A method with a small first letter belongs to the package.
        let is_own = function.kind() == "identifier"
            || function.kind() == "selector_expression" && last.starts_with(|c: char| c.is_ascii_lowercase());
        if let Some(params) = self.go.params.get(last).filter(|_| is_own).cloned() {
            for (param, argument) in params.iter().zip(nodes) {
                let value = self.go_value(argument, 0);
                let value = stepped(value, StepKind::Passed, last, at);
                let vars = self.go.vars.entry(last.to_owned()).or_default();
                let older = vars.get(param).cloned().unwrap_or_default();
                let value = if vars.contains_key(param) { merged(value, &older) } else { value };
                vars.insert(param.clone(), value);
            }
        }
    }

    /// Teaches functions without a name the arguments of a call: of a variable, or of an entry of a table.
    fn teach_literals(&mut self, function: Node<'_>, nodes: &[Node<'_>]) {
        if self.go.literals.is_empty()
            || self.of(function).len() > MAX_NAME && function.kind() != "func_literal"
        {
            return;
        }
        let is_entry = function.kind() == "index_expression";
        let holder = if is_entry { function.child_by_field_name("operand") } else { Some(function) };
        let Some(holder) = holder else { return };
        let value = self.go_value(holder, 0);
        let entries = if is_entry { value.elements().unwrap_or_default() } else { Vec::new() };
        let names = value.names.iter().chain(entries.iter().flat_map(|entry| &entry.names));
        let called: Vec<String> =
            names.filter(|name| self.go.literals.contains_key(&***name)).map(ToString::to_string).collect();
        for (within, params) in
            called.iter().filter_map(|name| self.go.literals.get(name).cloned()).collect::<Vec<_>>()
        {
            for (param, argument) in params.iter().zip(nodes) {
                let at = (argument.start_byte(), argument.end_byte());
                let value = Value::default().made_of(&self.go_value(*argument, 0));
                let value = stepped(value, StepKind::Passed, param, at);
                let vars = self.go.vars.entry(within.clone()).or_default();
                let older = vars.remove(param).unwrap_or_default();
                vars.insert(param.clone(), merged(value, &older));
            }
        }
    }

    fn hold_in(&mut self, target: Node<'_>, value: &Value) {
        let inner = match target.kind() {
            "unary_expression" => target.child_by_field_name("operand"),
            _ => None,
        };
        self.hold(inner.unwrap_or(target), Value::default().made_of(value));
    }

    /// Records what is copied into an open file.
    fn save(&mut self, target: Node<'_>, value: Value) {
        let open = self.go_value(target, 0);
        let path = open.names.iter().find_map(|name| name.strip_prefix("file:")).map(str::to_owned);
        if let Some(path) = path.filter(|_| value.origin.has(TRACKED)) {
            self.go.saved.insert(path, value);
        }
    }

    /// Content of a file that the program saved from elsewhere, if a value is its path.
    pub(super) fn saved_at(&self, path: &Value) -> Option<Value> {
        self.go.saved.get(&file_key(path)?).filter(|content| content.origin.has(TRACKED)).cloned()
    }

    /// Value of an expression.
    pub(super) fn go_value(&mut self, node: Node<'_>, depth: usize) -> Value {
        if depth > MAX_DEPTH || !self.cx.tick() {
            return Value::default();
        }
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "identifier" => {
                let name = self.of(node);
                let own = self.go.vars.get(&self.go.function).and_then(|vars| vars.get(name));
                let of_file = || self.go.vars.get("").and_then(|vars| vars.get(name));
                own.or_else(of_file).cloned().unwrap_or_else(|| Value::name(name))
            }
            "call_expression" => self.go_call(node, depth),
            "selector_expression" | "binary_expression" if super::is_writing_mode(self.of(node)) => {
                Value::name("O_WRONLY")
            }
            "selector_expression" => {
                let name = self.name_of(node);
                match &*name {
                    "os.Args" | "os.Stdin" => self.source(Origin::INPUT, &name, node),
                    _ => {
                        let owner = field("operand").map(|inner| self.go_value(inner, depth + 1));
                        let value = Value::name(&name);
                        owner.map_or_else(|| value.clone(), |owner| value.clone().made_of(&owner))
                    }
                }
            }
            "binary_expression" => {
                let (Some(left), Some(right)) = (field("left"), field("right")) else {
                    return Value::default();
                };
                if field("operator").is_none_or(|operator| self.of(operator) != "+") {
                    return self.value(node, depth);
                }
                let (left, right) = (self.go_value(left, depth + 1), self.go_value(right, depth + 1));
                concat(&left, &right).made_of(&left).made_of(&right)
            }
            "composite_literal" => match field("body") {
                Some(body) => {
                    let items: Vec<Value> = children(body)
                        .into_iter()
                        .take(MAX_ITEMS)
                        .map(|item| {
                            let inner = item.child_by_field_name("value").unwrap_or(item);
                            self.go_value(inner, depth + 1)
                        })
                        .collect();
                    Value::list(items)
                }
                None => Value::default(),
            },
            "index_expression" | "slice_expression" | "type_assertion_expression" | "unary_expression" => {
                let inner = field("operand").or_else(|| node.named_child(0));
                inner.map_or_else(Value::default, |inner| {
                    let value = self.go_value(inner, depth + 1);
                    if node.kind() == "unary_expression" { value } else { Value::default().made_of(&value) }
                })
            }
            "type_conversion_expression" => {
                field("operand").map_or_else(Value::default, |inner| self.go_value(inner, depth + 1))
            }
            "func_literal" => Value::name(&literal(node)),
            "expression_list" | "parenthesized_expression" | "literal_element" | "variadic_argument" => {
                let all = children(node);
                let mut values = all.into_iter().take(MAX_ITEMS).map(|one| self.go_value(one, depth + 1));
                let first = values.next().unwrap_or_default();
                let rest: Vec<Value> = values.collect();
                rest.iter().fold(first, Value::made_of)
            }
            _ => self.value(node, depth),
        }
    }

    fn source(&self, origin: Origin, name: &str, node: Node<'_>) -> Value {
        let at = (node.start_byte(), node.end_byte());
        Value::name(name).with_origin(origin).stepped(StepKind::Source, name, at)
    }

    fn go_call(&mut self, node: Node<'_>, depth: usize) -> Value {
        let Some(function) = node.child_by_field_name("function") else { return Value::default() };
        let nodes = node.child_by_field_name("arguments").map(children).unwrap_or_default();
        let args: Vec<Value> =
            nodes.into_iter().take(MAX_ITEMS).map(|node| self.go_value(node, depth + 1)).collect();
        let written = self.of(function);
        // Conversions, and folders as file systems.
        if matches!(written, "string" | "[]byte" | "[]rune" | "http.Dir" | "os.DirFS" | "http.FS") {
            return args.into_iter().next().unwrap_or_default();
        }
        let name = self.name_of(function);
        let receiver = match function.kind() {
            "selector_expression" => function.child_by_field_name("operand"),
            _ => None,
        };
        let receiver = receiver.map(|inner| self.go_value(inner, depth + 1)).unwrap_or_default();
        if let Some(result) = self.go.results.get(written) {
            return result.clone();
        }
        let first = args.first().and_then(Value::as_whole_text);
        match &*name {
            "net/http.Get"
            | "net/http.Post"
            | "net/http.PostForm"
            | "net/http.DefaultClient.Do"
            | "net.Dial"
            | "net.DialTimeout"
            | "crypto/tls.Dial"
            | "net.LookupTXT" => {
                return self.source(Origin::NET, &name, node);
            }
            "os.Environ" => return self.source(Origin::ENV, &name, node),
            "os.Getenv" | "os.LookupEnv" if matches!(first, Some("HOME" | "USERPROFILE")) => {
                return Value::text("~").with_origin(Origin::HOME);
            }
            "os.Getenv" | "os.LookupEnv" => {
                let is_secret = first.is_some_and(|variable| {
                    matches!(
                        variable,
                        "AWS_SECRET_ACCESS_KEY" | "AWS_SESSION_TOKEN" | "NPM_TOKEN" | "SSH_PRIVATE_KEY"
                    )
                });
                return if is_secret { self.source(Origin::SECRET, &name, node) } else { Value::default() };
            }
            "os.UserHomeDir" => return Value::text("~").with_origin(Origin::HOME),
            "os.ReadFile" | "io/ioutil.ReadFile" | "os.Open" => {
                let is_secret = args.first().and_then(Value::as_text).is_some_and(crate::rules::is_secret);
                return if is_secret { self.source(Origin::SECRET, &name, node) } else { Value::default() };
            }
            "os.Create" | "os.OpenFile" | "os.CreateTemp" => {
                let path = args.first().and_then(file_key).map(|path| format!("file:{path}"));
                return path.map_or_else(Value::default, |path| Value::name(&path));
            }
            "path/filepath.Join" | "path.Join" => {
                let joined = args.iter().map(Value::text_or_hole).collect::<Vec<_>>().join("/");
                return args.iter().fold(Value::text(&joined), Value::made_of);
            }
            "fmt.Sprintf" => {
                let Some(format) = args.first().and_then(Value::as_text) else { return Value::default() };
                let mut text = String::new();
                let mut rest = args.iter().skip(1);
                let mut pieces = format.split('%');
                text.push_str(pieces.next().unwrap_or(""));
                for piece in pieces {
                    text.push_str(&rest.next().map_or_else(String::new, Value::text_or_hole));
                    text.push_str(piece.get(1..).unwrap_or(""));
                }
                return args.iter().fold(Value::text(&text), Value::made_of);
            }
            "strconv.Atoi"
            | "strconv.ParseInt"
            | "strconv.ParseBool"
            | "strconv.ParseFloat"
            | "len"
            | "path/filepath.Base"
            | "path.Base"
            | "net/url.QueryEscape"
            | "net/url.PathEscape"
            | "html.EscapeString"
            | "regexp.MatchString" => return Value::default(),
            "append" => return args.iter().fold(args.first().cloned().unwrap_or_default(), Value::made_of),
            _ => {}
        }
        // `base64.StdEncoding.DecodeString(x)`, `hex.DecodeString(x)`.
        let step = match &*name {
            "encoding/hex.DecodeString" => Some("hex"),
            name if name.starts_with("encoding/base64.") && name.ends_with(".DecodeString") => Some("base64"),
            _ => None,
        };
        if let (Some(step), Some(input)) = (step, args.first()) {
            return decode::apply(step, input)
                .unwrap_or_else(|| Value::default().made_of(input).with_origin(Origin::UNPACKED));
        }
        // Connection of a client, which holds what that one sends.
        let serves = receiver.names.iter().any(|name| is_listener(name));
        if serves && name.rsplit('.').next().is_some_and(is_accepting) {
            return self.source(Origin::REQUEST, "connection", node);
        }
        let value = Value::name(&format!("{}()", &name[..name.floor_char_boundary(150)]));
        args.iter().fold(value.made_of(&receiver), Value::made_of)
    }

    /// Canonical name of an expression; empty for a long one, as a chain of calls is.
    fn name_of(&self, node: Node<'_>) -> String {
        let text = self.of(node);
        if text.len() > MAX_NAME { String::new() } else { self.canonical(text) }
    }

    /// `exec.Cmd{Path: "/bin/sh", Args: …}` is a call of `exec.Command`.
    pub(super) fn go_literal(&mut self, node: Node<'_>) {
        let Some(kind) = node.child_by_field_name("type").filter(|_| self.is_followed()) else { return };
        if self.name_of(kind) != "os/exec.Cmd" {
            return;
        }
        let mut argv = Vec::new();
        for item in node.child_by_field_name("body").map(children).unwrap_or_default() {
            let (Some(key), Some(value)) = (item.named_child(0), item.named_child(1)) else { continue };
            let value = self.go_value(value, 0);
            match self.of(key) {
                "Path" if argv.is_empty() => argv.push(value),
                "Args" => argv = value.elements().unwrap_or(argv),
                _ => {}
            }
        }
        let at = (node.start_byte(), node.end_byte());
        let call = Call {
            names: &["os/exec.Command".into()],
            method: None,
            receiver: None,
            args: &argv,
            kwargs: &[],
            context: 0,
        };
        self.cx.call(Language::Go, &call, at);
        crate::shell::command(self.cx, &argv, at);
    }

    /// Receiver of a method, for rules.
    pub(super) fn go_receiver(&mut self, node: Node<'_>) -> Option<Value> {
        let function = node.child_by_field_name("function").filter(|f| f.kind() == "selector_expression")?;
        let operand = function.child_by_field_name("operand").filter(|_| self.is_followed())?;
        Some(self.go_value(operand, 0))
    }

    /// Reports a request of an address whose host a client of the program, or the caller of a tool, chooses, unless it is
    /// checked where the address is requested, or where a function on its way is called.
    pub(super) fn go_requests(&mut self, name: &str, args: &[Value], node: Node<'_>) {
        let position = match name {
            "net/http.Get" | "net/http.Head" | "net/http.Post" | "net/http.PostForm" => 0,
            "net/http.NewRequest" => 1,
            "net/http.NewRequestWithContext" => 2,
            _ => return,
        };
        let given = args.get(position).filter(|value| value.origin.has(Origin::REQUEST));
        let open = given.filter(|value| crate::rules::is_open_address(value)).cloned();
        let Some(address) = open else { return };
        let at = (node.start_byte(), node.end_byte());
        let text = self.text;
        let plain = self.plain.get_or_insert_with(|| {
            let mut root = node;
            while let Some(above) = root.parent() {
                root = above;
            }
            super::plain::program(root, text)
        });
        let mut ways = address.passed().into_iter();
        if !plain.is_checked(Asked { at, position: Some(position), danger: Danger::Host })
            && !ways.any(|at| plain.is_checked(Asked { at, position: None, danger: Danger::Host }))
        {
            self.cx.fact_with(Language::Go, "flow.address", at, &[address], 0);
        }
    }

    /// Reports a program or a library that is started from a file that was saved before.
    pub(super) fn go_starts(&mut self, name: &str, args: &[Value], node: Node<'_>) {
        if !matches!(
            name,
            "os/exec.Command" | "os/exec.CommandContext" | "plugin.Open" | "syscall.Exec" | "os.StartProcess"
        ) {
            return;
        }
        let content = args.iter().take(3).find_map(|path| self.saved_at(path));
        if let Some(content) = content {
            let at = (node.start_byte(), node.end_byte());
            self.cx.fact_with(Language::Go, "go.saved_run", at, &[content], 0);
        }
    }

    /// True for programs whose values are followed.
    pub(super) fn is_followed(&self) -> bool {
        self.language == Language::Go
    }
}

/// Union of a value with an older one; a text stays known only if both are this text.
fn merged(value: Value, older: &Value) -> Value {
    let is_one = value.as_text().is_some() && value.as_text() == older.as_text();
    let value = value.or(older);
    if is_one { value } else { Value { known: None, ..value } }
}

/// Appends a step to the way of a value that has one.
fn stepped(value: Value, kind: StepKind, name: &str, at: (usize, usize)) -> Value {
    let is_again = value.trail.as_ref().is_none_or(|step| step.kind == kind && step.at == at);
    if is_again || !value.origin.has(TRACKED) { value } else { value.stepped(kind, name, at) }
}

/// Path of a file for the table of saved files; a few known characters tell one from others: `os.TempDir() + "/a.so"`.
fn file_key(path: &Value) -> Option<String> {
    const MIN_KNOWN: usize = 3;
    let text = path.as_text()?;
    (text.chars().filter(char::is_ascii_alphanumeric).count() >= MIN_KNOWN).then(|| text.to_owned())
}

/// True for the value of a listener, or of a socket that takes messages from anyone.
fn is_listener(name: &str) -> bool {
    matches!(
        name,
        "net.Listen()"
            | "net.ListenTCP()"
            | "net.ListenUnix()"
            | "net.ListenPacket()"
            | "net.ListenUDP()"
            | "crypto/tls.Listen()"
            | "crypto/tls.NewListener()"
    )
}

/// True for methods of a listener whose result is, or holds, what a client sends.
fn is_accepting(method: &str) -> bool {
    matches!(method, "Accept" | "AcceptTCP" | "AcceptUnix")
}

/// Name of the value that a function without a name is.
fn literal(node: Node<'_>) -> String {
    format!("func@{}", node.start_byte())
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.named_children(&mut node.walk()).filter(|node| !node.is_extra()).take(256).collect()
}
