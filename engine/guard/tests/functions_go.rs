//! Ways to name, import and hold a function in Go: each is read as the plain call is, for every kind of function that does harm
//! with text of a caller; functions of the file's own with such names raise nothing.

use hotcell_guard::{Artifact, Language, Limits, Pack, PackError, Verdict, scan};

/// Path of a package, its name, a function of it, its arguments (`x` is the caller's text), and its type.
type Sink = (&'static str, &'static str, &'static str, &'static [&'static str], &'static str);

const STRINGS: &str = "func(...string) any";

const SINKS: &[Sink] = &[
    ("os/exec", "exec", "Command", &["\"sh\"", "\"-c\"", "x"], "func(string, ...string) *exec.Cmd"),
    ("os/exec", "exec", "CommandContext", &["ctx", "\"sh\"", "\"-c\"", "x"], "func(any, ...any) any"),
    ("golang.org/x/sys/execabs", "execabs", "Command", &["\"bash\"", "\"-c\"", "x"], STRINGS),
    (
        "syscall",
        "syscall",
        "Exec",
        &["\"/bin/sh\"", "[]string{\"sh\", \"-c\", x}", "nil"],
        "func(...any) error",
    ),
    (
        "os",
        "os",
        "StartProcess",
        &["\"/bin/sh\"", "[]string{\"sh\", \"-c\", x}", "nil"],
        "func(...any) error",
    ),
    ("github.com/bitfield/script", "script", "Exec", &["x"], STRINGS),
    ("github.com/go-cmd/cmd", "cmd", "NewCmd", &["\"sh\"", "\"-c\"", "x"], STRINGS),
    ("github.com/codeskyblue/go-sh", "sh", "Command", &["\"sh\"", "\"-c\"", "x"], STRINGS),
    ("github.com/magefile/mage/sh", "sh", "Run", &["\"bash\"", "\"-c\"", "x"], STRINGS),
    ("github.com/d5/tengo/v2", "tengo", "NewScript", &["[]byte(x)"], STRINGS),
    ("net/http", "http", "Get", &["x"], STRINGS),
    ("net/http", "http", "Post", &["x", "\"text/plain\"", "nil"], STRINGS),
    ("net/http", "http", "NewRequest", &["\"GET\"", "x", "nil"], STRINGS),
    ("net", "net", "Dial", &["\"tcp\"", "x"], STRINGS),
    ("crypto/tls", "tls", "Dial", &["\"tcp\"", "x", "nil"], STRINGS),
    ("google.golang.org/grpc", "grpc", "NewClient", &["x"], STRINGS),
    ("net/http/httputil", "httputil", "NewSingleHostReverseProxy", &["parsed(x)"], STRINGS),
    ("os", "os", "ReadFile", &["\"/srv/docs/\" + x"], STRINGS),
    ("os", "os", "WriteFile", &["x", "nil", "0o644"], STRINGS),
    ("os", "os", "RemoveAll", &["\"/srv/docs/\" + x"], STRINGS),
];

/// Declarations, and statements with the call. `M` is the path of the package, `P` its name, `F` the function, `A` its arguments,
/// `R` its arguments as reflected values, `T` its type.
const WAYS: &[(&str, &str)] = &[
    ("import \"M\"", "P.F(A)"),
    ("import q \"M\"", "q.F(A)"),
    ("import . \"M\"", "F(A)"),
    ("import . \"M\"", "f := F; f(A)"),
    ("import \"M\"", "P.F /* of the library */ (A)"),
    ("import \"M\"", "defer P.F(A)"),
    ("import \"M\"", "go P.F(A)"),
    ("import \"M\"", "(P.F)(A)"),
    ("import \"M\"", "run := P.F; run(A)"),
    ("import \"M\"", "var run = P.F; run(A)"),
    ("import \"M\"", "var run T; run = P.F; run(A)"),
    ("import \"M\"", "run, _ := P.F, 1; run(A)"),
    ("import \"M\"", "if run := P.F; run != nil { run(A) }"),
    ("import \"M\"", "a := P.F; b := a; b(A)"),
    ("import \"M\"", "run := P.F; p := &run; (*p)(A)"),
    ("import \"M\"\nvar run = P.F", "run(A)"),
    ("import \"M\"\nvar (\n\trun = P.F\n)", "run(A)"),
    ("import \"M\"\nvar run T\nfunc init() { run = P.F }", "run(A)"),
    ("import \"M\"\ntype tool struct{ run T }", "t := tool{run: P.F}; t.run(A)"),
    ("import \"M\"\ntype tool struct{ run T }", "t := tool{P.F}; t.run(A)"),
    ("import \"M\"\ntype tool struct{ run T }", "t := &tool{}; t.run = P.F; t.run(A)"),
    ("import \"M\"\ntype tool struct{ run T }", "t := new(tool); t.run = P.F; r := t.run; r(A)"),
    ("import \"M\"", "t := struct{ run T }{run: P.F}; t.run(A)"),
    ("import \"M\"", "t := struct{ run T }{P.F}; t.run(A)"),
    (
        "import \"M\"\ntype tool struct{ run T }\nfunc (t tool) call(ctx context.Context, x string) { t.run(A) }",
        "tool{run: P.F}.call(ctx, x)",
    ),
    ("import \"M\"\ntype tool struct{ run T }\nvar one = tool{run: P.F}", "one.run(A)"),
    ("import \"M\"\ntype tool struct{ in struct{ run T } }", "var t tool; t.in.run = P.F; t.in.run(A)"),
    (
        "import \"M\"\ntype tool struct{ Run T }\nfunc made() *tool { return &tool{Run: P.F} }",
        "made().Run(A)",
    ),
    ("import \"M\"", "m := map[string]T{\"a\": P.F}; m[\"a\"](A)"),
    ("import \"M\"\nvar all = map[string]T{\"a\": P.F}", "if f, ok := all[\"a\"]; ok { f(A) }"),
    ("import \"M\"", "m := map[string]T{}; m[\"a\"] = P.F; m[\"a\"](A)"),
    ("import \"M\"", "m := make(map[int]T); m[1] = P.F; f := m[1]; f(A)"),
    ("import \"M\"", "all := []T{P.F}; all[0](A)"),
    ("import \"M\"", "all := [1]T{P.F}; all[0](A)"),
    ("import \"M\"", "var all []T; all = append(all, P.F); all[0](A)"),
    ("import \"M\"", "for _, f := range []T{P.F} { f(A) }"),
    ("import \"M\"", "all := []T{P.F}; for _, f := range all { f(A) }"),
    ("import \"M\"\nfunc via(f T, ctx context.Context, x string) { f(A) }", "via(P.F, ctx, x)"),
    ("import \"M\"\nfunc via(ctx context.Context, x string, all ...T) { all[0](A) }", "via(ctx, x, P.F)"),
    (
        "import \"M\"\nfunc via(f T, ctx context.Context, x string) { f(A) }\nvar run = P.F",
        "via(run, ctx, x)",
    ),
    ("import \"M\"\nfunc pick() T { return P.F }", "pick()(A)"),
    ("import \"M\"\nfunc pick() T { return P.F }", "f := pick(); f(A)"),
    ("import \"M\"\nfunc pick() (T, error) { return P.F, nil }", "f, _ := pick(); f(A)"),
    ("import \"M\"\nfunc pick() (f T) { f = P.F; return f }", "pick()(A)"),
    ("import \"M\"\nfunc same[G any](g G) G { return g }", "same(P.F)(A)"),
    ("import \"M\"", "f := func(ctx context.Context, x string) { P.F(A) }; f(ctx, x)"),
    ("import \"M\"", "func(ctx context.Context, x string) { P.F(A) }(ctx, x)"),
    ("import \"M\"", "f := func() T { return P.F }(); f(A)"),
    ("import \"M\"", "f := func() T { return P.F }; f()(A)"),
    ("import \"M\"\ntype fn T", "fn(P.F)(A)"),
    ("import \"M\"\ntype fn T\nfunc (f fn) do(ctx context.Context, x string) { f(A) }", "fn(P.F).do(ctx, x)"),
    ("import \"M\"\ntype fn = T", "var f fn = P.F; f(A)"),
    ("import \"M\"", "var v any = P.F; v.(T)(A)"),
    ("import \"M\"", "var v interface{} = P.F; f, _ := v.(T); f(A)"),
    ("import \"M\"", "any(P.F).(T)(A)"),
    ("import \"M\"", "c := make(chan T, 1); c <- P.F; f := <-c; f(A)"),
    ("import \"M\"", "c := make(chan T, 1); c <- P.F; (<-c)(A)"),
    ("import \"M\"\nimport \"sync\"", "var m sync.Map; m.Store(1, P.F); f, _ := m.Load(1); f.(T)(A)"),
    ("import \"M\"\nimport \"sync/atomic\"", "var v atomic.Value; v.Store(P.F); v.Load().(T)(A)"),
    ("import \"M\"\nimport \"sync\"", "sync.OnceValue(func() T { return P.F })()(A)"),
    ("import \"M\"", "c := context.WithValue(ctx, 1, P.F); c.Value(1).(T)(A)"),
    ("import \"M\"\nimport \"reflect\"", "reflect.ValueOf(P.F).Call([]reflect.Value{R})"),
    ("import \"M\"\nimport \"reflect\"", "f := reflect.ValueOf(P.F); f.Call([]reflect.Value{R})"),
    (
        "import \"M\"\ntype s struct{}\nfunc (s) run(ctx context.Context, x string) { P.F(A) }",
        "s{}.run(ctx, x)",
    ),
    (
        "import \"M\"\ntype s struct{}\nfunc (s) Run(ctx context.Context, x string) { P.F(A) }",
        "new(s).Run(ctx, x)",
    ),
    (
        "import \"M\"\ntype s struct{}\nfunc (s) Run(ctx context.Context, x string) { P.F(A) }",
        "r := s{}.Run; r(ctx, x)",
    ),
    (
        "import \"M\"\ntype runner interface{ Run(context.Context, string) }\ntype s struct{}\nfunc (s) Run(ctx context.Context, x string) { P.F(A) }",
        "var r runner = s{}; r.Run(ctx, x)",
    ),
    (
        "import \"M\"\ntype h struct{ do func(context.Context, string) }",
        "t := h{do: func(ctx context.Context, x string) { P.F(A) }}; t.do(ctx, x)",
    ),
    (
        "import \"M\"\nfunc one(ctx context.Context, x string) { P.F(A) }\nvar all = map[string]func(context.Context, string){\"a\": one}",
        "all[\"a\"](ctx, x)",
    ),
    (
        "import \"M\"\ntype reg struct{ m map[string]T }\nfunc (r *reg) Register(n string, f T) { r.m[n] = f }\nfunc (r *reg) Get(n string) T { return r.m[n] }",
        "r := &reg{}; r.Register(\"a\", P.F); r.Get(\"a\")(A)",
    ),
];

/// Declarations, and statements that give text of a caller to an interpreter or a client, of which a value has the method.
const METHODS: &[(&str, &str)] = &[
    ("import \"github.com/robertkrimen/otto\"", "otto.New().Run(x)"),
    ("import \"github.com/robertkrimen/otto\"", "vm := otto.New(); vm.Run(x)"),
    ("import \"github.com/robertkrimen/otto\"", "run := otto.New().Run; run(x)"),
    ("import \"github.com/robertkrimen/otto\"", "vm := otto.New(); run := vm.Run; run(x)"),
    ("import \"github.com/robertkrimen/otto\"", "vm := otto.New(); vm.Copy().Eval(x)"),
    ("import \"github.com/robertkrimen/otto\"\nvar vm = otto.New()", "vm.Run(x)"),
    ("import \"github.com/robertkrimen/otto\"\nvar vm *otto.Otto", "vm.Run(x)"),
    ("import \"github.com/robertkrimen/otto\"\ntype s struct{ vm *otto.Otto }\nvar one s", "one.vm.Run(x)"),
    (
        "import \"github.com/robertkrimen/otto\"\nfunc made() *otto.Otto { return otto.New() }",
        "made().Run(x)",
    ),
    (
        "import \"github.com/robertkrimen/otto\"\nfunc run(vm *otto.Otto, x string) { vm.Run(x) }",
        "run(otto.New(), x)",
    ),
    (
        "import \"github.com/robertkrimen/otto\"",
        "m := map[string]*otto.Otto{\"a\": otto.New()}; m[\"a\"].Run(x)",
    ),
    ("import js \"github.com/robertkrimen/otto\"", "vm := new(js.Otto); vm.Run(x)"),
    ("import \"github.com/dop251/goja\"", "goja.New().RunString(x)"),
    ("import \"github.com/dop251/goja\"", "p := goja.MustCompile(\"a\", x, false); goja.New().RunProgram(p)"),
    ("import \"github.com/traefik/yaegi/interp\"", "i := interp.New(interp.Options{}); i.Eval(x)"),
    (
        "import \"github.com/traefik/yaegi/interp\"",
        "i := interp.New(interp.Options{}); i.EvalWithContext(ctx, x)",
    ),
    ("import \"github.com/yuin/gopher-lua\"", "l := lua.NewState(); l.DoString(x)"),
    ("import \"github.com/yuin/gopher-lua\"", "l := lua.NewState(); f, _ := l.LoadString(x); l.Push(f)"),
    ("import v8 \"rogchap.com/v8go\"", "c := v8.NewContext(); c.RunScript(x, \"a.js\")"),
    ("import \"go.starlark.net/starlark\"", "starlark.ExecFile(nil, \"a.star\", x, nil)"),
    (
        "import (\n\"strings\"\n\"mvdan.cc/sh/v3/interp\"\n\"mvdan.cc/sh/v3/syntax\"\n)",
        "p, _ := syntax.NewParser().Parse(strings.NewReader(x), \"\"); r, _ := interp.New(); r.Run(ctx, p)",
    ),
    ("import \"github.com/bitfield/script\"", "script.Echo(\"a\").Exec(x).Stdout()"),
    ("import \"k8s.io/utils/exec\"", "exec.New().Command(\"sh\", \"-c\", x).Run()"),
    ("import \"os/exec\"", "c := exec.Command(\"sh\"); c.Args = append(c.Args, \"-c\", x); c.Run()"),
    ("import \"os/exec\"", "c := &exec.Cmd{}; c.Path = x; c.Run()"),
    (
        "import (\n\"os/exec\"\n\"strings\"\n)",
        "c := exec.Command(\"bash\", \"-s\"); c.Stdin = strings.NewReader(x); c.Run()",
    ),
    ("import \"net/http\"", "c := &http.Client{}; c.Get(x)"),
    ("import \"net/http\"", "var c http.Client; c.Head(x)"),
    ("import \"net/http\"\ntype s struct{ client *http.Client }\nvar one s", "one.client.Get(x)"),
    ("import \"net/http\"", "get := http.DefaultClient.Get; get(x)"),
    (
        "import (\n\"net/http\"\n\"net/url\"\n)",
        "u, _ := url.Parse(x); http.DefaultClient.Do(&http.Request{URL: u})",
    ),
    (
        "import (\n\"net/http\"\n\"net/http/httputil\"\n)",
        "p := &httputil.ReverseProxy{Director: func(out *http.Request) { out.URL.Host = x }}; use(p)",
    ),
    (
        "import (\n\"net/http/httputil\"\n\"net/url\"\n)",
        "p := &httputil.ReverseProxy{Rewrite: func(out *httputil.ProxyRequest) { u, _ := url.Parse(x); out.SetURL(u) }}; use(p)",
    ),
    (
        "import (\n\"net/http\"\n\"net/url\"\n)",
        "u, _ := url.Parse(x); c := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(u)}}; use(c)",
    ),
    ("import \"net\"", "d := net.Dialer{}; d.DialContext(ctx, \"tcp\", x)"),
    ("import \"github.com/gorilla/websocket\"", "websocket.DefaultDialer.Dial(x, nil)"),
    ("import \"github.com/coder/websocket\"", "websocket.Dial(ctx, x, nil)"),
    (
        "import \"github.com/go-resty/resty/v2\"",
        "resty.New().SetTimeout(5).R().SetHeader(\"a\", \"b\").Get(x)",
    ),
    ("import \"github.com/valyala/fasthttp\"", "fasthttp.Get(nil, x)"),
    ("import \"plugin\"", "plugin.Open(x)"),
];

/// Neighbours of these that are honest.
const HONEST: &[(&str, &str)] = &[
    ("func Command(a ...string) string { return a[0] }", "Command(\"sh\", \"-c\", x)"),
    ("import \"app/exec\"", "exec.Command(\"sh\", \"-c\", x)"),
    ("import \"app/exec\"", "run := exec.Command; run(\"sh\", \"-c\", x)"),
    (
        "type tool struct{ run func(...string) string }\nfunc joined(a ...string) string { return a[0] }",
        "t := tool{run: joined}; t.run(\"sh\", \"-c\", x)",
    ),
    ("import \"strings\"", "m := map[string]func(string) string{\"up\": strings.ToUpper}; m[\"up\"](x)"),
    ("import \"os/exec\"", "run := exec.Command; run(\"git\", \"status\").Run(); use(x)"),
    ("import \"os/exec\"", "run := exec.Command; run(\"ls\", \"--\", x).Run()"),
    (
        "import \"os/exec\"\ntype tool struct{ start func(string, ...string) *exec.Cmd }",
        "t := tool{start: exec.Command}; t.start(\"date\").Run(); use(x)",
    ),
    ("import \"app/script\"", "script.Exec(x)"),
    ("import \"github.com/bitfield/script\"", "script.File(\"/srv/a\").Match(x).Stdout()"),
    ("import \"github.com/robertkrimen/otto\"", "vm := otto.New(); vm.Set(\"x\", x); vm.Run(\"x + 1\")"),
    ("import \"app/vm\"", "vm.New().Run(x)"),
    ("import \"net/http\"", "get := http.Get; get(\"https://api.example.invalid/\" + x)"),
    ("import \"net/http\"", "h := http.Header{}; h.Get(x)"),
    (
        "import (\n\"net/http\"\n\"net/url\"\n)",
        "u := url.URL{Scheme: \"https\", Host: \"api.example.invalid\", Path: x}; http.Get(u.String())",
    ),
    ("import (\n\"net/http\"\n\"net/url\"\n)", "u, _ := url.Parse(base); u.Path = x; http.Get(u.String())"),
    ("import (\n\"fmt\"\n\"net/http\"\n)", "http.Get(fmt.Sprintf(\"%s/items/%s\", base, x))"),
    ("import \"net\"", "net.Dial(\"tcp\", \"db.example.invalid:5432\"); use(x)"),
    ("import \"net\"", "if x != \"a:1\" && x != \"b:1\" { return nil, nil }; net.Dial(\"tcp\", x)"),
    (
        "import \"net\"\nvar hosts = map[string]string{\"a\": \"10.0.0.1:80\"}",
        "h, ok := hosts[x]; if !ok { return nil, nil }; net.Dial(\"tcp\", h)",
    ),
    (
        "import (\n\"net/http/httputil\"\n\"net/url\"\n)",
        "u, _ := url.Parse(base); httputil.NewSingleHostReverseProxy(u); use(x)",
    ),
    (
        "import (\n\"os\"\n\"path/filepath\"\n)",
        "read := os.ReadFile; read(filepath.Join(\"/srv\", filepath.Base(x)))",
    ),
    (
        "import (\n\"os\"\n\"path/filepath\"\n)",
        "if !filepath.IsLocal(x) { return nil, nil }; os.ReadFile(filepath.Join(\"/srv\", x))",
    ),
    ("import \"os\"", "root, _ := os.OpenRoot(\"/srv\"); root.Open(x)"),
];

/// A server with a tool that gets a text from its caller.
fn server(declared: &str, body: &str) -> String {
    let (imports, rest): (Vec<&str>, Vec<&str>) = declared.split('\n').partition(|line| {
        line.starts_with("import \"")
            || line.starts_with("import . ")
            || line.starts_with("import q ")
            || line.starts_with("import js ")
            || line.starts_with("import v8 ")
    });
    format!(
        "package main\n\nimport (\n\t\"context\"\n\n\t\"github.com/mark3labs/mcp-go/mcp\"\n)\n{}\n\n{}\n\nvar base = os.Getenv(\"BASE\")\n\n\
         func handle(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {{\n\tx := request.GetString(\"x\", \
         \"\")\n\t{}\n\treturn mcp.NewToolResultText(\"done\"), nil\n}}\n",
        imports.join("\n"),
        rest.join("\n"),
        body
    )
}

/// A way with a function of a package.
fn with((declared, body): (&str, &str), (module, package, function, args, kind): Sink) -> String {
    let reflected: Vec<String> = args.iter().map(|arg| format!("reflect.ValueOf({arg})")).collect();
    let filled = |text: &str| -> String {
        let mut out = String::new();
        for (at, c) in text.char_indices() {
            let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
            let alone =
                !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + 1..].chars().next());
            match c {
                'M' if alone => out.push_str(module),
                'P' if alone => out.push_str(package),
                'F' if alone => out.push_str(function),
                'A' if alone => out.push_str(&args.join(", ")),
                'R' if alone => out.push_str(&reflected.join(", ")),
                'T' if alone => out.push_str(kind),
                _ => out.push(c),
            }
        }
        out
    };
    server(&filled(declared), &filled(body))
}

/// Texts that are not held for review.
fn allowed(pack: &Pack, texts: impl Iterator<Item = String>) -> Vec<String> {
    texts
        .filter(|text| {
            let artifact = Artifact::new("main.go", text.clone()).run_as(Language::Go);
            scan(pack, &Limits::default(), &artifact).verdict < Verdict::Review
        })
        .collect()
}

#[test]
fn functions_are_found_however_they_are_held() -> Result<(), PackError> {
    let pack = Pack::builtin()?;
    let all = WAYS.iter().flat_map(|way| SINKS.iter().map(|sink| with(*way, *sink)));
    let hidden = allowed(&pack, all);
    let total = WAYS.len() * SINKS.len();
    assert!(hidden.is_empty(), "{} of {total} are hidden:\n{}", hidden.len(), hidden.join("\n----\n"));
    Ok(())
}

#[test]
fn methods_of_libraries_are_found() -> Result<(), PackError> {
    let pack = Pack::builtin()?;
    let hidden = allowed(&pack, METHODS.iter().map(|(declared, body)| server(declared, body)));
    assert!(hidden.is_empty(), "{} are hidden:\n{}", hidden.len(), hidden.join("\n----\n"));
    Ok(())
}

#[test]
fn neighbours_raise_nothing() -> Result<(), PackError> {
    let pack = Pack::builtin()?;
    let raised: Vec<String> = HONEST
        .iter()
        .map(|(declared, body)| server(declared, body))
        .filter(|text| allowed(&pack, std::iter::once(text.clone())).is_empty())
        .collect();
    assert!(raised.is_empty(), "{} are raised:\n{}", raised.len(), raised.join("\n----\n"));
    Ok(())
}
