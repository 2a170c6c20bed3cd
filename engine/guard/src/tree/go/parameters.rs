//! Parameters and fields: what a client of a server or the caller of a tool sends, and values of a library by their types.

use super::super::Tree;
use super::children;
use super::functions::add_all;
use crate::report::StepKind;
use crate::value::{Origin, Value};
use std::borrow::Cow;
use tree_sitter::Node;

/// Types of parameters that hold what a client of a server, the caller of a tool, or a writer of messages sends.
const REQUESTS: &[&str] = &[
    "http.Request",
    "gin.Context",
    "echo.Context",
    "fiber.Ctx",
    "fasthttp.RequestCtx",
    "app.RequestContext",
    "iris.Context",
    "restful.Request",
    "events.APIGatewayProxyRequest",
    "events.APIGatewayV2HTTPRequest",
    "events.LambdaFunctionURLRequest",
    "mcp.CallToolRequest",
    "mcp.GetPromptRequest",
    "mcp.ReadResourceRequest",
    "discordgo.MessageCreate",
    "discordgo.InteractionCreate",
    "tgbotapi.Update",
    "slack.SlashCommand",
    "nats.Msg",
    "mqtt.Message",
    "amqp.Delivery",
];

/// True for the request as a whole, not a part of it.
pub(super) fn is_whole_request(value: &Value) -> bool {
    value.origin.has(Origin::REQUEST)
        && value.names.iter().any(|name| REQUESTS.iter().any(|kind| name.ends_with(kind)))
}

/// Signature of a function, as far as it tells who calls it.
#[derive(Default)]
struct Signature {
    /// A method.
    of_method: bool,
    /// Its result belongs to a library of tools: each of its parameters is given by the caller of a tool.
    of_tool: bool,
    /// A method of a service of `net/rpc`: `func (t *T) Name(args *Args, reply *Reply) error`.
    of_rpc: bool,
}

impl Tree<'_, '_, '_> {
    pub(super) fn parameters(&mut self, list: Node<'_>, is_named: bool) -> Vec<String> {
        let mut names = Vec::new();
        let signature = self.signature(list);
        let mut of_tool = signature.of_tool;
        let mut behind_context = false;
        for (position, parameter) in children(list)
            .into_iter()
            .filter(|node| node.kind().ends_with("parameter_declaration"))
            .enumerate()
        {
            let kind_node = parameter.child_by_field_name("type");
            let kind = kind_node.map_or("", |kind| self.of(kind));
            let is_request = REQUESTS.iter().any(|name| kind.trim_start_matches('*').ends_with(name))
                && !(kind.ends_with("http.Request") && self.is_client());
            // Behind the request of a tool are its decoded arguments.
            let is_argument = of_tool && !kind.ends_with("Context");
            of_tool |= is_request && kind.contains("mcp.");
            // A method of a service of gRPC: `(ctx context.Context, req *pb.RunRequest)`.
            let is_message = kind.starts_with('*') && kind.contains('.') && kind.ends_with("Request");
            let is_request = is_request
                || is_argument
                || signature.of_rpc && position == 0
                || signature.of_method && behind_context && is_message;
            behind_context = kind == "context.Context";
            let is_listening = matches!(kind, "net.Listener" | "net.PacketConn");
            let library = kind_node.and_then(|kind| self.type_of(kind));
            let is_variadic = parameter.kind() == "variadic_parameter_declaration";
            let mut cursor = parameter.walk();
            for name in parameter.children_by_field_name("name", &mut cursor) {
                names.push(format!("{}{}", self.of(name), if is_variadic { "..." } else { "" }));
                self.learn_inner(list, self.of(name));
                if is_listening {
                    self.hold(name, Value::name("net.Listen()"));
                }
                let mut value = library.as_deref().map(Value::name).unwrap_or_default();
                if is_request {
                    let at = (name.start_byte(), name.end_byte());
                    value = value.with_origin(Origin::REQUEST).stepped(StepKind::Source, self.of(name), at);
                }
                if is_request || library.is_some() {
                    self.hold(name, value);
                }
            }
        }
        if is_named {
            let function = self.go.function.clone();
            self.go.params.insert(function, names.clone());
        }
        names
    }

    /// Notes that a name is a parameter within a function without a name.
    fn learn_inner(&mut self, list: Node<'_>, name: &str) {
        let Some(function) = list.parent().filter(|above| above.kind() == "func_literal") else { return };
        let places = self.go.inner.entry(name.to_owned()).or_default();
        let place = (function.start_byte(), function.end_byte());
        if let Err(at) = places.binary_search(&place) {
            places.insert(at, place);
        }
    }

    /// Function that a name belongs to at a place: one without a name, if it is a parameter of it.
    pub(super) fn scope_at(&self, at: usize, name: &str) -> Cow<'_, str> {
        const MAX_LOOKED_AT: usize = 16;
        let places = self.go.inner.get(name).map_or(&[][..], Vec::as_slice);
        let before = &places[..places.partition_point(|(start, _)| *start <= at)];
        let around = before.iter().rev().take(MAX_LOOKED_AT).find(|(_, end)| at < *end);
        around.map_or(Cow::Borrowed(&*self.go.function), |(start, _)| Cow::Owned(format!("func@{start}")))
    }

    /// True for a file that makes requests and answers none: its requests are its own.
    fn is_client(&self) -> bool {
        self.text.contains("http.NewRequest") && !self.text.contains("ResponseWriter")
    }

    fn signature(&self, list: Node<'_>) -> Signature {
        let Some(function) = list.parent() else { return Signature::default() };
        let result = function.child_by_field_name("result").map_or("", |result| self.of(result));
        let of_method = function.kind() == "method_declaration";
        let imports = |module: &str| self.names.values().any(|name| name.as_str() == module);
        let types: Vec<&str> = children(list)
            .into_iter()
            .filter_map(|parameter| parameter.child_by_field_name("type").map(|kind| self.of(kind)))
            .collect();
        Signature {
            of_method,
            of_tool: result.contains("ToolResponse"),
            of_rpc: of_method
                && result == "error"
                && matches!(types[..], [_, reply] if reply.starts_with('*'))
                && imports("net/rpc"),
        }
    }

    /// Canonical name of the type of a library, without pointers, lists and what it is made of.
    pub(super) fn type_of(&self, node: Node<'_>) -> Option<String> {
        let written = self.of(node).trim_start_matches(['*', '[', ']', '&']);
        let (package, name) = written.split_once('.')?;
        let is_name = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_');
        let name = name.split('[').next().unwrap_or(name);
        (is_name(package) && is_name(name))
            .then(|| self.names.get(package).map(|module| format!("{module}.{name}")))?
    }

    /// Learns the type of a field, if a library has it.
    pub(super) fn learn_field(&mut self, node: Node<'_>) {
        let Some(library) = node.child_by_field_name("type").and_then(|kind| self.type_of(kind)) else {
            return;
        };
        let mut cursor = node.walk();
        let names: Vec<String> =
            node.children_by_field_name("name", &mut cursor).map(|name| self.of(name).to_owned()).collect();
        for name in names {
            add_all(self.go.field_types.entry(name).or_default(), &[library.as_str().into()]);
        }
    }
}
