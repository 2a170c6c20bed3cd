//! Libraries of Go, by what their functions do with an argument: one line for a library.
//!
//! An owner is a package, a type of it or a value of it; with `*` it also stands for what its functions return
//! (`resty.New().R()`). The version at the end of a package's path (`/v2`) does not count.

use super::network::is_of;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// Effect of a function of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Requests an address of the web.
    Request,
    /// Requests an address of the web, or makes such a request, with a body.
    Upload,
    /// Connects to a host, or passes requests on to it.
    Connect,
    /// Asks a server of names.
    Lookup,
    /// Starts a program: its path, and its arguments behind it.
    Start,
    /// Starts what a command line says.
    Line,
    /// Executes text in an interpreter.
    Evaluate,
}

use Does::{Connect, Evaluate, Line, Lookup, Request, Start, Upload};

/// Effect, position of the argument (address, program, line or text), owners, names of functions.
type Library = (Does, usize, &'static str, &'static str);

const LIBRARIES: &[Library] = &[
    (Request, 0, "net/http net/http.Client net/http.DefaultClient", "Get Head"),
    (Upload, 0, "net/http net/http.Client net/http.DefaultClient", "Post PostForm"),
    (Upload, 1, "net/http", "NewRequest"),
    (Upload, 2, "net/http", "NewRequestWithContext"),
    (Request, 2, "golang.org/x/net/context/ctxhttp", "Get Head"),
    (Upload, 2, "golang.org/x/net/context/ctxhttp", "Post PostForm"),
    (Request, 0, "github.com/go-resty/resty*", "Get Head"),
    (Upload, 0, "github.com/go-resty/resty*", "Post Put Patch Delete"),
    (Upload, 1, "github.com/go-resty/resty*", "Execute"),
    (Request, 0, "github.com/imroc/req*", "Get Head MustGet MustHead"),
    (Upload, 0, "github.com/imroc/req*", "Post Put Patch MustPost MustPut MustPatch"),
    (Request, 0, "github.com/parnurzeal/gorequest*", "Get Head"),
    (Upload, 0, "github.com/parnurzeal/gorequest*", "Post Put Patch"),
    (Request, 0, "github.com/levigross/grequests*", "Get Head"),
    (Upload, 0, "github.com/levigross/grequests*", "Post Put Patch"),
    (Request, 0, "github.com/hashicorp/go-retryablehttp*", "Get Head"),
    (Upload, 0, "github.com/hashicorp/go-retryablehttp*", "Post PostForm"),
    (Upload, 1, "github.com/hashicorp/go-retryablehttp", "NewRequest"),
    (Upload, 2, "github.com/hashicorp/go-retryablehttp", "NewRequestWithContext"),
    (
        Request,
        1,
        "github.com/valyala/fasthttp github.com/valyala/fasthttp.Client",
        "Get GetTimeout GetDeadline",
    ),
    (Upload, 1, "github.com/valyala/fasthttp github.com/valyala/fasthttp.Client", "Post"),
    (Upload, 0, "github.com/valyala/fasthttp*", "SetRequestURI"),
    (Upload, 0, "github.com/gofiber/fiber*", "SetRequestURI"),
    (Upload, 0, "github.com/dghubble/sling*", "Get Head Post Put Patch Delete Base"),
    (Upload, 0, "github.com/carlmjohnson/requests", "URL"),
    (Request, 0, "github.com/gocolly/colly*", "Visit Head"),
    (Request, 1, "github.com/hashicorp/go-getter*", "Get GetAny GetFile"),
    (Request, 1, "github.com/cavaliergopher/grab*", "Get NewRequest"),
    (Request, 0, "github.com/mmcdole/gofeed*", "ParseURL"),
    (Request, 0, "github.com/PuerkitoBio/goquery", "NewDocument"),
    (
        Connect,
        1,
        "net net.Dialer crypto/tls net/rpc net/rpc/jsonrpc golang.org/x/crypto/ssh",
        "Dial DialTimeout DialHTTP",
    ),
    (Connect, 2, "net.Dialer crypto/tls.Dialer", "DialContext"),
    (Connect, 2, "crypto/tls", "DialWithDialer"),
    (Connect, 0, "net/smtp", "Dial SendMail"),
    (Connect, 0, "google.golang.org/grpc", "Dial NewClient"),
    (Connect, 1, "google.golang.org/grpc", "DialContext"),
    (Connect, 0, "github.com/gorilla/websocket*", "Dial"),
    (Connect, 1, "github.com/gorilla/websocket*", "DialContext"),
    (Connect, 0, "golang.org/x/net/websocket", "Dial"),
    (Connect, 1, "nhooyr.io/websocket github.com/coder/websocket github.com/gobwas/ws*", "Dial"),
    (Connect, 1, "golang.org/x/net/proxy", "SOCKS5"),
    (Connect, 0, "net/http", "ProxyURL"),
    (Connect, 0, "net/http/httputil", "NewSingleHostReverseProxy"),
    (Connect, 0, "net/http/httputil.ProxyRequest", "SetURL"),
    (Connect, 0, "github.com/chromedp/chromedp", "Navigate"),
    (Connect, 0, "github.com/go-rod/rod*", "MustPage MustNavigate Navigate"),
    (Connect, 0, "github.com/playwright-community/playwright-go*", "Goto"),
    (Lookup, 0, "net", "LookupHost LookupIP LookupTXT LookupAddr LookupCNAME LookupMX LookupNS"),
    (Lookup, 1, "net", "ResolveIPAddr ResolveTCPAddr ResolveUDPAddr"),
    (
        Lookup,
        1,
        "net.DefaultResolver net.Resolver",
        "LookupHost LookupIPAddr LookupTXT LookupAddr LookupCNAME LookupMX LookupNS",
    ),
    (Lookup, 2, "net.DefaultResolver net.Resolver", "LookupIP LookupNetIP"),
    (Lookup, 0, "github.com/miekg/dns*", "Exchange ExchangeContext SetQuestion"),
    (Start, 0, "os/exec golang.org/x/sys/execabs", "Command"),
    (Start, 1, "os/exec golang.org/x/sys/execabs", "CommandContext"),
    (Start, 0, "syscall golang.org/x/sys/unix", "Exec ForkExec StartProcess"),
    (Start, 0, "os", "StartProcess"),
    (Start, 0, "github.com/go-cmd/cmd", "NewCmd"),
    (Start, 1, "github.com/go-cmd/cmd", "NewCmdOptions"),
    (Start, 0, "github.com/codeskyblue/go-sh*", "Command Call"),
    (Start, 0, "github.com/polydawn/gosh*", "Gosh Sh Command"),
    (Start, 0, "github.com/magefile/mage/sh", "Run RunV Output"),
    (Start, 1, "github.com/magefile/mage/sh", "RunWith RunWithV OutputWith"),
    (Start, 3, "github.com/magefile/mage/sh", "Exec"),
    (Start, 0, "k8s.io/utils/exec*", "Command"),
    (Start, 1, "k8s.io/utils/exec*", "CommandContext"),
    (Line, 0, "github.com/bitfield/script*", "Exec ExecForEach"),
    (Line, 0, "github.com/commander-cli/cmd", "NewCommand"),
    (Line, 0, "github.com/progrium/go-shell", "Run Cmd"),
    (Line, 0, "golang.org/x/crypto/ssh.Session", "Run Output CombinedOutput Start"),
    (Line, 0, "github.com/melbahja/goph*", "Run RunContext Command"),
    (Line, 0, "github.com/appleboy/easyssh-proxy*", "Run Stream"),
    (Evaluate, 0, "github.com/robertkrimen/otto*", "Run Eval Compile"),
    (Evaluate, 0, "github.com/dop251/goja*", "RunString RunScript RunProgram"),
    (Evaluate, 1, "github.com/dop251/goja", "Compile MustCompile"),
    (Evaluate, 0, "github.com/traefik/yaegi*", "Eval EvalPath Compile"),
    (Evaluate, 1, "github.com/traefik/yaegi*", "EvalWithContext"),
    (Evaluate, 0, "github.com/yuin/gopher-lua*", "DoString LoadString Load DoFile"),
    (Evaluate, 1, "github.com/Shopify/go-lua", "DoString LoadString"),
    (Evaluate, 0, "github.com/aarzilli/golua*", "DoString LoadString"),
    (Evaluate, 0, "rogchap.com/v8go* github.com/tommie/v8go*", "RunScript CompileUnboundScript"),
    (
        Evaluate,
        0,
        "github.com/buke/quickjs-go* github.com/lithdew/quickjs* modernc.org/quickjs*",
        "Eval EvalFile",
    ),
    (Evaluate, 0, "github.com/d5/tengo", "NewScript"),
    (Evaluate, 1, "github.com/d5/tengo", "Eval"),
    (Evaluate, 2, "go.starlark.net/starlark", "ExecFile Eval"),
    (Evaluate, 3, "go.starlark.net/starlark", "ExecFileOptions EvalOptions"),
    (Evaluate, 1, "github.com/mattn/anko/vm", "Execute"),
    (Evaluate, 2, "github.com/mattn/anko/vm", "ExecuteContext"),
    (Evaluate, 0, "github.com/Knetic/govaluate github.com/casbin/govaluate", "NewEvaluableExpression"),
    (Evaluate, 0, "github.com/PaesslerAG/gval", "Evaluate"),
    (
        Evaluate,
        0,
        "github.com/go-python/gpython* github.com/DataDog/go-python3*",
        "PyRun_SimpleString RunString",
    ),
    (Evaluate, 1, "mvdan.cc/sh/v3/interp* mvdan.cc/sh/interp*", "Run"),
];

/// Effect of a function by its canonical name, and the position of the argument that it concerns.
pub(crate) fn effect(name: &str) -> Option<(Does, usize)> {
    let (owner, method) = name.rsplit_once('.')?;
    let found = BY_FUNCTION
        .get(method)?
        .iter()
        .find(|(_, _, owners, _)| owners.split(' ').any(|known| owns(known, owner)));
    found.map(|(does, at, ..)| (*does, *at))
}

/// Lines of the table by each function that they name.
static BY_FUNCTION: LazyLock<FxHashMap<&str, Vec<&Library>>> = LazyLock::new(|| {
    let mut all: FxHashMap<&str, Vec<&Library>> = FxHashMap::default();
    for library in LIBRARIES {
        for function in library.3.split(' ') {
            all.entry(function).or_default().push(library);
        }
    }
    all
});

/// True if an owner of a function is this one of the table.
fn owns(known: &str, owner: &str) -> bool {
    match known.strip_suffix('*') {
        Some(module) => is_of(owner, module) || owner.strip_prefix(module).is_some_and(is_below),
        None => owner == known || owner.strip_prefix(known).is_some_and(is_version),
    }
}

/// True for `/v2`.
fn is_version(rest: &str) -> bool {
    rest.strip_prefix("/v").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// True for a package below another one, or a version of it: `/v2.New()`, `/interp.New()`.
fn is_below(rest: &str) -> bool {
    rest.starts_with('/')
}

pub(super) fn is_request(name: &str) -> bool {
    matches!(effect(name), Some((Request | Upload, _)))
}

pub(super) fn is_upload(name: &str) -> bool {
    matches!(effect(name), Some((Upload, _)))
}

pub(super) fn is_lookup(name: &str) -> bool {
    matches!(effect(name), Some((Lookup, _)))
}

pub(super) fn is_line(name: &str) -> bool {
    matches!(effect(name), Some((Line, _)))
}

pub(super) fn is_evaluation(name: &str) -> bool {
    matches!(effect(name), Some((Evaluate, _)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_owner_and_name() {
        for (name, wanted) in [
            ("net/http.Get", Some((Request, 0))),
            ("net/http.Client.Get", Some((Request, 0))),
            ("net/http.Header.Get", None),
            ("net/http.Request.FormValue", None),
            ("net/http.NewRequestWithContext", Some((Upload, 2))),
            ("github.com/go-resty/resty/v2.New().R().Get", Some((Request, 0))),
            ("github.com/go-resty/restyish.New().R().Get", None),
            ("net.Dial", Some((Connect, 1))),
            ("net.Listen", None),
            ("net.Dialer.DialContext", Some((Connect, 2))),
            ("github.com/gorilla/websocket.DefaultDialer.Dial", Some((Connect, 0))),
            ("net.DefaultResolver.LookupTXT", Some((Lookup, 1))),
            ("os/exec.CommandContext", Some((Start, 1))),
            ("os/exec.LookPath", None),
            ("k8s.io/utils/exec.New().Command", Some((Start, 0))),
            ("github.com/bitfield/script.Echo().Exec", Some((Line, 0))),
            ("github.com/robertkrimen/otto.New().Run", Some((Evaluate, 0))),
            ("github.com/traefik/yaegi/interp.New().Eval", Some((Evaluate, 0))),
            ("github.com/d5/tengo/v2.NewScript", Some((Evaluate, 0))),
            ("runner.Run", None),
            ("Run", None),
        ] {
            assert_eq!(effect(name), wanted, "{name}");
        }
    }

    /// A line without an owner, or with a second blank, would match nothing.
    #[test]
    fn every_line_names_owners_and_functions() {
        for (does, at, owners, functions) in LIBRARIES {
            for function in functions.split(' ') {
                for owner in owners.split(' ') {
                    let owner = owner.trim_end_matches('*');
                    assert!(!owner.is_empty() && !function.is_empty(), "{owners}: {functions}");
                    assert_eq!(
                        effect(&format!("{owner}.{function}")),
                        Some((*does, *at)),
                        "{owner}.{function}"
                    );
                }
            }
        }
    }
}
