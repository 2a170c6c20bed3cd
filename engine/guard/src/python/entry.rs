//! Entry points: functions whose arguments come from a model or from a client of a server.

use super::call::Named;
use crate::value::Const;
use ruff_python_ast::{Expr, ParameterWithDefault};
use std::rc::Rc;

/// Kind of an entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A tool of a model.
    Tool,
    /// A route of a server.
    Route,
}

/// Decorators and registering calls of tools.
pub(super) fn is_tool_maker(last: &str) -> bool {
    matches!(
        last,
        "tool"
            | "call_tool"
            | "function_tool"
            | "tool_plain"
            | "kernel_function"
            | "ai_function"
            | "ai_callable"
            | "register_tool"
            | "read_resource"
            | "get_prompt"
    )
}

/// Kind of entry point that a decorator makes, by its last name, the object before it as written, and what is
/// known about that object.
pub(super) fn by_decorator(owner: &str, owner_names: &[Rc<str>], last: &str) -> Option<Entry> {
    if is_tool_maker(last) || !owner.is_empty() && matches!(last, "resource" | "prompt") && is_server(owner) {
        return Some(Entry::Tool);
    }
    let routes = matches!(
        last,
        "route"
            | "get"
            | "post"
            | "put"
            | "delete"
            | "patch"
            | "websocket"
            | "api_route"
            | "options"
            | "view"
    );
    let known = owner_names.iter().any(|name| {
        let class = name.trim_end_matches("()").rsplit('.').next().unwrap_or(name);
        matches!(
            class,
            "Flask"
                | "FastAPI"
                | "APIRouter"
                | "Blueprint"
                | "Sanic"
                | "Quart"
                | "Bottle"
                | "Starlette"
                | "RouteTableDef"
                | "Router"
                | "Litestar"
                | "flask"
                | "bottle"
        )
    });
    let said = matches!(
        owner,
        "app"
            | "router"
            | "api"
            | "bp"
            | "blueprint"
            | "routes"
            | "server"
            | "web"
            | "application"
            | "webapp"
            | "bottle"
    );
    // Decorators of views of Django and of its REST framework.
    let view = matches!(
        last,
        "csrf_exempt" | "require_POST" | "require_GET" | "require_safe" | "require_http_methods" | "api_view"
    );
    (view || routes && (known || said)).then_some(Entry::Route)
}

/// True for the usual names of a tool server, since prompts and resources are also other things.
fn is_server(owner: &str) -> bool {
    matches!(owner, "mcp" | "server" | "app" | "srv" | "fastmcp" | "mcp_server")
}

/// Kind of entry point that a method of a class with these bases is.
pub(super) fn by_base(bases: &[Rc<str>], method: &str) -> Option<Entry> {
    bases.iter().find_map(|base| {
        let class = base.trim_start_matches('@').rsplit('.').next().unwrap_or(base);
        match (class, method) {
            (
                "BaseTool" | "Tool" | "StructuredTool",
                "_run" | "_arun" | "run" | "forward" | "execute" | "call",
            ) => Some(Entry::Tool),
            (
                "RequestHandler" | "MethodView" | "HTTPEndpoint" | "Resource" | "APIView" | "View",
                "get" | "post" | "put" | "delete" | "patch",
            ) => Some(Entry::Route),
            _ => None,
        }
    })
}

/// Kind of entry point that a call makes of the functions given to it.
pub(super) fn by_call(last: &str) -> Option<Entry> {
    match last {
        "add_tool" | "register_tool" | "from_function" | "FunctionTool" | "from_defaults"
        | "register_function" | "StructuredTool" | "Tool" | "tool" => Some(Entry::Tool),
        "add_url_rule" | "add_api_route" | "add_get" | "add_post" | "add_route" | "add_websocket_route" => {
            Some(Entry::Route)
        }
        _ => None,
    }
}

/// Name by which [`by_call`] knows a function: the last part of its name, or that of a similar one for views of Django.
pub(super) fn registering(name: &str) -> &str {
    match name {
        "django.urls.path" | "django.urls.re_path" | "django.urls.conf.path" | "django.conf.urls.url" => {
            "add_route"
        }
        name => name.rsplit('.').next().unwrap_or(name),
    }
}

/// True for a query that picks a user by rank, not by what a client proved: `filter(is_superuser=True)`.
pub(super) fn picks_administrator(method: &str, kwargs: &[Named]) -> bool {
    let queries = matches!(
        method,
        "filter" | "get" | "filter_by" | "get_or_none" | "find_one" | "aget" | "get_or_create" | "objects"
    );
    queries
        && kwargs.iter().any(|(key, value)| match &**key {
            "is_superuser" | "is_staff" | "is_admin" | "superuser" | "admin" | "is_root" => {
                matches!(value.known, Some(Const::Bool(true)))
            }
            "role" | "rank" | "username" | "login" => value.as_whole_text().is_some_and(|text| {
                matches!(
                    &*text.to_ascii_lowercase(),
                    "admin" | "administrator" | "superuser" | "root" | "owner" | "superadmin"
                )
            }),
            "pk" | "id" => value.as_int() == Some(1) && method != "filter",
            _ => false,
        })
}

/// Parameters of a route's path that leave no free text: `<int:page>`, `<uuid:key>`.
pub(super) fn converted(path: &str) -> Vec<String> {
    let pieces = path.split('<').skip(1).filter_map(|piece| piece.split_once('>'));
    let closed = pieces.filter_map(|(piece, _)| {
        let (kind, name) = piece.split_once(':')?;
        matches!(kind.trim(), "int" | "uuid").then(|| name.trim().to_owned())
    });
    closed.collect()
}

/// True for a parameter that its caller can fill with any text: not a number, a fixed choice, or something
/// that the framework passes.
pub(super) fn is_open(parameter: &ParameterWithDefault) -> bool {
    let name = parameter.parameter.name.as_str();
    if matches!(name, "ctx" | "context" | "db" | "session" | "background_tasks" | "websocket" | "response") {
        return false;
    }
    if let Some(Expr::Call(call)) = parameter.default.as_deref()
        && let Expr::Name(name) = &*call.func
        && matches!(name.id.as_str(), "Depends" | "Security")
    {
        return false;
    }
    parameter.parameter.annotation.as_deref().is_none_or(is_open_type)
}

fn is_open_type(annotation: &Expr) -> bool {
    match annotation {
        Expr::Name(name) => !matches!(
            name.id.as_str(),
            "int"
                | "float"
                | "bool"
                | "complex"
                | "date"
                | "datetime"
                | "UUID"
                | "Decimal"
                | "Context"
                | "Session"
        ),
        // `Literal["a", "b"]`, `Optional[int]`, `list[int]`.
        Expr::Subscript(subscript) => match &*subscript.value {
            Expr::Name(name) if name.id.as_str() == "Literal" => false,
            Expr::Attribute(attribute) if attribute.attr.as_str() == "Literal" => false,
            Expr::Name(name)
                if matches!(name.id.as_str(), "Optional" | "list" | "List" | "Annotated" | "set") =>
            {
                match &*subscript.slice {
                    Expr::Tuple(tuple) => tuple.elts.first().is_none_or(is_open_type),
                    inner => is_open_type(inner),
                }
            }
            _ => true,
        },
        Expr::BinOp(union) => is_open_type(&union.left) || is_open_type(&union.right),
        Expr::NoneLiteral(_) => false,
        Expr::StringLiteral(text) => !matches!(text.value.to_str(), "int" | "float" | "bool"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;
    use ruff_python_ast::Stmt;
    use ruff_python_parser::parse_module;

    #[test]
    fn decorators_make_entry_points() {
        for (owner, names, last, entry) in [
            ("mcp", &["mcp.server.fastmcp.FastMCP()"][..], "tool", Some(Entry::Tool)),
            ("server", &[], "call_tool", Some(Entry::Tool)),
            ("", &[], "tool", Some(Entry::Tool)),
            ("mcp", &[], "resource", Some(Entry::Tool)),
            ("app", &["flask.Flask()"], "route", Some(Entry::Route)),
            ("x", &["fastapi.FastAPI()"], "post", Some(Entry::Route)),
            ("router", &[], "get", Some(Entry::Route)),
            ("cache", &[], "get", None),
            ("pytest", &["pytest"], "fixture", None),
            ("", &[], "resource", None),
            ("property", &[], "setter", None),
            ("click", &["click"], "command", None),
            ("", &[], "csrf_exempt", Some(Entry::Route)),
            ("", &[], "require_http_methods", Some(Entry::Route)),
            ("", &[], "login_required", None),
        ] {
            let names: Vec<Rc<str>> = names.iter().map(|n| (*n).into()).collect();
            assert_eq!(by_decorator(owner, &names, last), entry, "{owner}.{last}");
        }
    }

    #[test]
    fn calls_make_entry_points() {
        for (name, entry) in [
            ("mcp.add_tool", Some(Entry::Tool)),
            ("app.add_url_rule", Some(Entry::Route)),
            ("django.urls.path", Some(Entry::Route)),
            ("django.urls.re_path", Some(Entry::Route)),
            ("os.path", None),
            ("path", None),
            ("importlib.resources.path", None),
        ] {
            assert_eq!(by_call(registering(name)), entry, "{name}");
        }
    }

    #[test]
    fn queries_that_pick_administrators() {
        let yes = || Value::of(Const::Bool(true));
        for (method, key, value, picks) in [
            ("filter", "is_superuser", yes(), true),
            ("filter_by", "is_admin", yes(), true),
            ("get", "username", Value::text("Admin"), true),
            ("get", "pk", Value::int(1), true),
            ("filter", "is_superuser", Value::default(), false),
            ("filter", "is_active", yes(), false),
            ("filter", "pk", Value::int(1), false),
            ("get", "username", Value::text("guest"), false),
            ("create", "is_admin", yes(), false),
        ] {
            assert_eq!(picks_administrator(method, &[(key.into(), value)]), picks, "{method} {key}");
        }
    }

    #[test]
    fn converters_close_parameters() {
        for (path, want) in [
            ("a/<int:page>/<str:name>/<uuid:key>", &["page", "key"][..]),
            ("<path:x>/<slug:y>/<z>", &[]),
            ("(?P<int>x)", &[]),
            ("<int:x", &[]),
            ("", &[]),
        ] {
            assert_eq!(converted(path), want, "{path}");
        }
    }

    #[test]
    fn open_parameters_are_known_by_type() {
        for (parameter, open) in [
            ("x", true),
            ("x: str", true),
            ("x: str = 'a'", true),
            ("x: Optional[str] = None", true),
            ("x: str | None = None", true),
            ("x: dict", true),
            ("x: list[str]", true),
            ("x: int", false),
            ("x: int | None = None", false),
            ("x: list[int]", false),
            ("x: Literal['a', 'b']", false),
            ("x: Annotated[int, Field(ge=1)]", false),
            ("x: bool = False", false),
            ("ctx: Context", false),
            ("x = Depends(get)", false),
        ] {
            let parsed = parse_module(&format!("def f({parameter}): pass"));
            let Some(Stmt::FunctionDef(def)) = parsed.as_ref().ok().and_then(|p| p.syntax().body.first())
            else {
                panic!("{parameter}")
            };
            let found = def.parameters.iter_non_variadic_params().next().is_some_and(is_open);
            assert_eq!(found, open, "{parameter}");
        }
    }
}
