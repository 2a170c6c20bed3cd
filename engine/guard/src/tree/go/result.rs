//! Results of calls: where values come in, and what functions of the library make of their arguments.

use super::super::Tree;
use super::calls::{file_key, is_listener};
use super::{MAX_ITEMS, children};
use crate::decode;
use crate::value::{Origin, Value};
use tree_sitter::Node;

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
}

/// True for methods of a listener whose result is, or holds, what a client sends.
fn is_accepting(method: &str) -> bool {
    matches!(method, "Accept" | "AcceptTCP" | "AcceptUnix")
}
