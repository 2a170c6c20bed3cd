//! Results of calls: where values come in, and what functions of the library make of their arguments.

use super::super::Tree;
use super::calls::{file_key, is_listener};
use super::parameters::is_whole_request;
use super::requests::{HOSTED, OWN_HOST, joined};
use super::sinks::is_command;
use super::stepped;
use super::{MAX_ITEMS, children};
use crate::decode;
use crate::report::StepKind;
use crate::rules::{Does, effect};
use crate::value::{Const, HOLE, Origin, Value};
use tree_sitter::Node;

/// Type of the answers of a server.
const ANSWER: &str = "net/http.ResponseWriter";

impl Tree<'_, '_, '_> {
    pub(super) fn go_call(&mut self, node: Node<'_>, depth: usize) -> Value {
        let Some(function) = node.child_by_field_name("function") else { return Value::default() };
        let nodes = node.child_by_field_name("arguments").map(children).unwrap_or_default();
        let args: Vec<Value> =
            nodes.into_iter().take(MAX_ITEMS).map(|node| self.go_value(node, depth + 1)).collect();
        let written = self.of(function);
        // Conversions, and folders as file systems.
        if matches!(written, "string" | "[]byte" | "[]rune" | "http.Dir" | "os.DirFS" | "http.FS") {
            return args.into_iter().next().unwrap_or_default();
        }
        // A conversion to a type of the file, which has methods of its own.
        if self.go.types.contains(written) {
            let mut value = args.into_iter().next().unwrap_or_default();
            value.names.push(written.into());
            return value;
        }
        let name = self.name_of(function);
        let receiver = match function.kind() {
            "selector_expression" => function.child_by_field_name("operand"),
            _ => None,
        };
        let receiver = receiver.map(|inner| self.go_value(inner, depth + 1)).unwrap_or_default();
        let callees = self.callees(function, Some(&receiver));
        if let Some(result) = self.go.results.get(written) {
            return result.clone();
        }
        if let Some(found) = callees.iter().find(|name| is_answer(name)) {
            return self.source(Origin::NET, found, node);
        }
        let first = args.first().and_then(Value::as_whole_text);
        match &*name {
            "crypto/tls.Dial" | "net.Dial" | "net.DialTimeout" | "net.LookupTXT" => {
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
            "new" => {
                let kind = node.child_by_field_name("arguments").and_then(|list| list.named_child(0));
                let kind = kind.and_then(|kind| self.type_of(kind));
                return kind.map_or_else(Value::default, |kind| Value::name(&kind));
            }
            // A reflected function or value stays one.
            "reflect.ValueOf" | "any" => return args.into_iter().next().unwrap_or_default(),
            "os.Create" | "os.OpenFile" | "os.CreateTemp" => {
                let path = args.first().and_then(file_key).map(|path| format!("file:{path}"));
                return path.map_or_else(Value::default, |path| Value::name(&path));
            }
            // Paths that match a pattern, and the folder of a path.
            "path/filepath.Glob" => {
                return args.into_iter().next().unwrap_or_default().with_origin(Origin::TREE);
            }
            "path/filepath.Dir" | "path.Dir" => {
                let path = args.first().and_then(Value::as_text).and_then(|path| path.rsplit_once('/'));
                let folder = path.map_or_else(Value::default, |(folder, _)| Value::text(folder));
                return args.iter().fold(folder, Value::made_of);
            }
            "path/filepath.Join" | "path.Join" => {
                let text = args.iter().map(Value::text_or_hole).collect::<Vec<_>>().join("/");
                let path = args.iter().fold(Value::text(&text), Value::made_of);
                // A name may be checked where it is put behind a folder, and not in the other branch.
                let at = (node.start_byte(), node.end_byte());
                return stepped(path, StepKind::Passed, "filepath.Join", at);
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
                let value = args.iter().fold(Value::text(&text), Value::made_of);
                return match args.get(1).filter(|_| format.starts_with('%')) {
                    Some(host) => joined(host, host, value),
                    None => value,
                };
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
            "append" => return appended(&args),
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
        // The path that a client asked for.
        if matches!(last_of(&name), "RequestURI" | "EscapedPath") && receiver.origin.has(Origin::REQUEST) {
            return Value::text(&format!("/{HOLE}")).made_of(&receiver);
        }
        // Functions that keep a name inside a folder.
        if matches!(last_of(&name), "RootPath" | "SecureJoin" | "FollowSymlinkInScope") {
            return Value::default();
        }
        // Connection of a client, which holds what that one sends.
        let serves = receiver.names.iter().any(|name| is_listener(name));
        if serves && name.rsplit('.').next().is_some_and(is_accepting) {
            return self.source(Origin::REQUEST, "connection", node);
        }
        // Names of entries of an archive, where a function of another file may have checked them.
        let is_elsewhere = function.kind() == "identifier" && !self.go.params.contains_key(written);
        let mut value = Value::default();
        for name in callees.iter().take(4) {
            value.names.push(format!("{}()", &name[..name.floor_char_boundary(150)]).into());
        }
        if is_command(&value) {
            let at = callees.iter().find_map(|name| match effect(name) {
                Some((Does::Start, at)) => Some(at),
                _ => None,
            });
            value.known = Value::list(args.iter().skip(at.unwrap_or(0)).cloned().collect()).known;
        }
        // An encoder or a buffer over an answer of the server writes to it.
        let writes = matches!(&*name, "encoding/json.NewEncoder" | "bufio.NewWriter" | "io.MultiWriter");
        if writes && args.iter().any(|argument| argument.is_named(ANSWER)) {
            value.names.push(ANSWER.into());
        }
        // A function that is given the whole request may choose among hosts of the program, and a path stays one.
        let chooses = args.iter().any(is_whole_request)
            && !callees.iter().any(|name| self.go.params.contains_key(&**name));
        let is_path = args.first().is_some_and(|first| {
            first.origin.has(Origin::REQUEST)
                && first.as_text().is_some()
                && !crate::rules::is_open_address(first)
        });
        if chooses || is_path {
            value.names.push(HOSTED.into());
        }
        for mark in [HOSTED, OWN_HOST] {
            let of_receiver = mark == HOSTED || matches!(last_of(&name), "String" | "Parse");
            let is_marked = |value: &Value| value.is_named(mark);
            if args.iter().any(is_marked) || of_receiver && is_marked(&receiver) {
                value.names.push(mark.into());
            }
        }
        let value = args.iter().fold(value.made_of(&receiver), Value::made_of);
        let value = if is_elsewhere { value.without(Origin::ENTRY) } else { value };
        // A method of the file returns what it was given, and more.
        let own = callees.iter().filter_map(|name| self.go.results.get(&**name));
        own.fold(value, Value::made_of)
    }
}

/// Last part of a name.
fn last_of(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// A list with further elements; one that is not known counts as its first element.
fn appended(args: &[Value]) -> Value {
    let Some((first, rest)) = args.split_first() else { return Value::default() };
    let whole = args.iter().fold(first.clone(), Value::made_of);
    let begin = match &first.known {
        Some(Const::List(items)) => items.to_vec(),
        _ => vec![first.clone()],
    };
    let all = begin.iter().chain(rest).take(MAX_ITEMS).cloned().collect();
    Value { known: Value::list(all).known, ..whole }
}

/// True for functions whose result is, or holds, what the other end of a connection sends. A request that is made is not.
fn is_answer(name: &str) -> bool {
    let method = name.rsplit('.').next().unwrap_or(name);
    match effect(name) {
        Some((Does::Request | Does::Upload, _)) => {
            !method.starts_with("NewRequest") && !matches!(method, "SetRequestURI" | "Base" | "URL")
        }
        _ => matches!(name, "net/http.DefaultClient.Do" | "net/http.Client.Do"),
    }
}

/// True for methods of a listener whose result is, or holds, what a client sends.
fn is_accepting(method: &str) -> bool {
    matches!(method, "Accept" | "AcceptTCP" | "AcceptUnix")
}
