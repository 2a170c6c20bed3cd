//! The three languages decide alike over tables of programs: those that check the host of an address, and those that only
//! look as if they did.

use crate::{Artifact, Limits, Pack, scan};

/// Rules that a program is reported by.
fn found(pack: &Pack, name: &str, source: &str) -> bool {
    let report = scan(pack, &Limits::default(), &Artifact::new(name, source));
    report.findings.iter().any(|finding| finding.rule.ends_with("flow.address"))
}

fn table(name: &str, wrap: fn(&str, &str) -> String, rows: &[(&str, &str, bool)]) {
    let pack = Pack::builtin().expect("rules");
    let mut wrong = Vec::new();
    for (before, body, is_found) in rows {
        let source = wrap(before, body);
        if found(&pack, name, &source) != *is_found {
            wrong.push(format!("found should be {is_found}:\n{source}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n----\n"));
}

#[test]
fn hosts_in_python() {
    let wrap = |before: &str, body: &str| {
        let body = body.replace('\n', "\n    ");
        format!(
            "import httpx, re, socket, ipaddress\nfrom urllib.parse import urlparse\n{before}\n@mcp.tool()\nasync def page(url: str, other: str = '', hosts: list = []) -> str:\n    {body}\n    return httpx.get(url).text\n"
        )
    };
    const HONEST: &[(&str, &str)] = &[
        ("OK = {'a.example'}", "if urlparse(url).hostname not in OK:\n    raise ValueError(url)"),
        ("OK = {'a.example'}", "host = urlparse(url).netloc.lower()\nif host not in OK:\n    return 'no'"),
        (
            "",
            "parsed = urlparse(url)\nif parsed.scheme != 'https' or parsed.hostname != 'a.example':\n    raise ValueError",
        ),
        (
            "",
            "parsed = urlparse(url)\nif not (parsed.hostname or '').endswith('.a.example'):\n    raise ValueError",
        ),
        ("", "if not url.startswith('https://api.a.example/'):\n    raise ValueError"),
        ("", "if not url.startswith(('https://a.example/', 'https://b.example/')):\n    raise ValueError"),
        ("", "if not re.match(r'^https://(www\\.)?a\\.example/', url):\n    return 'no'"),
        ("", "assert urlparse(url).hostname == 'a.example'"),
        ("def check(u):\n    if urlparse(u).hostname not in OK:\n        raise ValueError(u)", "check(url)"),
        ("def is_ok(u):\n    return urlparse(u).hostname in OK", "if not is_ok(url):\n    raise ValueError"),
        (
            "def is_ok(u):\n    try:\n        host = urlparse(u).hostname\n        for info in socket.getaddrinfo(host, None):\n            if ipaddress.ip_address(info[4][0]).is_private:\n                return False\n    except OSError:\n        return False\n    return True",
            "if not is_ok(url):\n    raise ValueError",
        ),
        (
            "",
            "ip = ipaddress.ip_address(socket.gethostbyname(urlparse(url).hostname))\nif ip.is_private or ip.is_loopback:\n    raise ValueError",
        ),
        ("", "if not any(urlparse(url).hostname == h for h in OK):\n    raise ValueError"),
        ("", "host = urlparse(url).hostname\nif host in ('localhost', '127.0.0.1'):\n    raise ValueError"),
        (
            "def checked(u):\n    if urlparse(u).hostname not in OK:\n        raise ValueError(u)\n    return u",
            "url = checked(url)",
        ),
        (
            "OK = {'a.example'}",
            "ok = False\nfor h in OK:\n    if urlparse(url).hostname == h:\n        ok = True\n        break\nif not ok:\n    raise ValueError",
        ),
        (
            "NETS = [ipaddress.ip_network('10.0.0.0/8')]",
            "ip = ipaddress.ip_address(socket.gethostbyname(urlparse(url).hostname))\nif any(ip in net for net in NETS):\n    raise ValueError",
        ),
    ];
    const DISHONEST: &[(&str, &str)] = &[
        ("# checks the hostname against ssrf", "pass"),
        ("", "hostname = urlparse(url).hostname"),
        ("", "host = urlparse(url).hostname\nprint(host, 'netloc')"),
        ("OK = {'a.example'}", "if urlparse(other).hostname not in OK:\n    raise ValueError"),
        ("OK = {'a.example'}", "if urlparse(url).hostname not in OK:\n    print('outside')"),
        ("", "if urlparse(url).scheme not in ('http', 'https'):\n    raise ValueError"),
        ("", "if not re.match(r'^https?://[\\w.-]+', url):\n    raise ValueError"),
        ("", "if not url.startswith('https://'):\n    raise ValueError"),
        ("", "if urlparse(url).hostname not in hosts:\n    raise ValueError"),
        ("def check(u):\n    return True", "if not check(url):\n    raise ValueError"),
        (
            "def check(u):\n    host = urlparse(u).hostname\n    return host",
            "if not check(url):\n    raise ValueError",
        ),
        ("OK = {'a.example'}", "if urlparse(url).hostname in OK:\n    other = url"),
        ("", "if urlparse(url).hostname == 'nothing.example':\n    raise ValueError"),
        (
            "def check(u):\n    if urlparse(u).hostname not in OK:\n        raise ValueError(u)",
            "check(other)",
        ),
        ("", "if not urlparse(url).hostname:\n    raise ValueError"),
        (
            "OK = {'a.example'}",
            "try:\n    if urlparse(url).hostname not in OK:\n        raise ValueError\nexcept ValueError:\n    pass",
        ),
        (
            "OK = {'a.example'}",
            "if other:\n    if urlparse(url).hostname not in OK:\n        raise ValueError",
        ),
    ];
    let rows: Vec<(&str, &str, bool)> = HONEST
        .iter()
        .map(|(before, body)| (*before, *body, false))
        .chain(DISHONEST.iter().map(|(before, body)| (*before, *body, true)))
        .collect();
    table("a.py", wrap, &rows);
}

#[test]
fn hosts_in_javascript() {
    let wrap = |before: &str, body: &str| {
        format!(
            "import {{ z }} from 'zod';\n{before}\nserver.tool('page', 'Reads a page', {{ url: z.string(), other: z.string() }}, async ({{ url, other, hosts }}) => {{\n{body}\nreturn (await fetch(url)).text();\n}});\n"
        )
    };
    const HONEST: &[(&str, &str)] = &[
        ("const OK = new Set(['a.example']);", "if (!OK.has(new URL(url).hostname)) throw new Error(url);"),
        (
            "const OK = ['a.example'];",
            "const parsed = new URL(url);\nif (!OK.includes(parsed.host)) { return 'no'; }",
        ),
        ("", "const { hostname } = new URL(url);\nif (hostname !== 'a.example') throw new Error();"),
        ("", "if (!url.startsWith('https://api.a.example/')) throw new Error();"),
        ("", "if (!/^https:\\/\\/a\\.example\\//.test(url)) throw new Error();"),
        ("const ok = (u) => new URL(u).hostname.endsWith('.a.example');", "if (!ok(url)) return 'no';"),
        (
            "function check(u) { const h = new URL(u).hostname; if (h === 'localhost' || h.startsWith('10.')) throw new Error(); }",
            "check(url);",
        ),
        ("const OK = ['a.example'];", "if (!OK.some((h) => new URL(url).hostname === h)) throw new Error();"),
        ("const OK = ['a.example'];", "if (OK.indexOf(new URL(url).hostname) === -1) throw new Error();"),
        (
            "function check(u) { try { return OK.has(new URL(u).hostname); } catch { return false; } }",
            "if (!check(url)) throw new Error();",
        ),
        (
            "import ip from 'ipaddr.js'; import dns from 'dns/promises';",
            "const { address } = await dns.lookup(new URL(url).hostname);\nif (ip.parse(address).range() !== 'unicast') throw new Error();",
        ),
    ];
    const DISHONEST: &[(&str, &str)] = &[
        ("// checks .host and isPrivate against ssrf", ""),
        ("", "const hostname = new URL(url).hostname; console.error(hostname);"),
        ("const OK = new Set(['a.example']);", "if (!OK.has(new URL(other).hostname)) throw new Error();"),
        ("const OK = new Set(['a.example']);", "if (!OK.has(new URL(url).hostname)) console.error('no');"),
        ("", "if (new URL(url).protocol !== 'https:') throw new Error();"),
        ("", "if (!url.startsWith('https://')) throw new Error();"),
        ("", "if (!/^https?:\\/\\/[\\w.-]+/.test(url)) throw new Error();"),
        ("", "if (!hosts.includes(new URL(url).hostname)) throw new Error();"),
        ("function check(u) { return true; }", "if (!check(url)) throw new Error();"),
        (
            "const OK = new Set(['a.example']);",
            "try { if (!OK.has(new URL(url).hostname)) throw new Error(); } catch (e) { console.error(e); }",
        ),
    ];
    let rows: Vec<(&str, &str, bool)> = HONEST
        .iter()
        .map(|(before, body)| (*before, *body, false))
        .chain(DISHONEST.iter().map(|(before, body)| (*before, *body, true)))
        .collect();
    table("a.ts", wrap, &rows);
}

#[test]
fn hosts_in_go() {
    let wrap = |before: &str, body: &str| {
        format!(
            "package a\nimport (\"net\"; \"net/http\"; \"net/url\"; \"strings\"; \"errors\"; \"slices\"; \"regexp\")\n{before}\nfunc page(w http.ResponseWriter, r *http.Request) {{\n\traw := r.FormValue(\"to\")\n\tother := r.FormValue(\"other\")\n\tuse(other)\n{body}\n\tp, _ := http.Get(raw)\n\tuse(p)\n}}\n"
        )
    };
    const HONEST: &[(&str, &str)] = &[
        (
            "",
            "\tu, err := url.Parse(raw)\n\tif err != nil || u.Hostname() != \"a.example\" {\n\t\treturn\n\t}",
        ),
        (
            "var ok = map[string]bool{\"a.example\": true}",
            "\tu, _ := url.Parse(raw)\n\tif !ok[u.Host] {\n\t\thttp.Error(w, \"no\", 403)\n\t\treturn\n\t}",
        ),
        (
            "var ok = map[string]bool{\"a.example\": true}",
            "\tu, _ := url.Parse(raw)\n\tif _, found := ok[u.Host]; !found {\n\t\treturn\n\t}",
        ),
        ("", "\tif !strings.HasPrefix(raw, \"https://a.example/\") {\n\t\treturn\n\t}"),
        (
            "var ok = []string{\"a.example\"}",
            "\tu, _ := url.Parse(raw)\n\tif !slices.Contains(ok, u.Hostname()) {\n\t\treturn\n\t}",
        ),
        (
            "func check(raw string) error {\n\tu, err := url.Parse(raw)\n\tif err != nil {\n\t\treturn err\n\t}\n\tif u.Hostname() != \"a.example\" {\n\t\treturn errors.New(\"no\")\n\t}\n\treturn nil\n}",
            "\tif err := check(raw); err != nil {\n\t\treturn\n\t}",
        ),
        (
            "func check(raw string) bool {\n\tu, err := url.Parse(raw)\n\treturn err == nil && u.Host == \"a.example\"\n}",
            "\tif !check(raw) {\n\t\treturn\n\t}",
        ),
        (
            "",
            "\tu, _ := url.Parse(raw)\n\tips, _ := net.LookupIP(u.Hostname())\n\tfor _, ip := range ips {\n\t\tif ip.IsPrivate() || ip.IsLoopback() {\n\t\t\treturn\n\t\t}\n\t}",
        ),
        (
            "var ok = regexp.MustCompile(\"^a\\\\.example$\")",
            "\tu, _ := url.Parse(raw)\n\tif !ok.MatchString(u.Host) {\n\t\treturn\n\t}",
        ),
    ];
    const DISHONEST: &[(&str, &str)] = &[
        ("// .Host is looked at against ssrf", ""),
        ("", "\tu, _ := url.Parse(raw)\n\tuse(u.Hostname())"),
        ("", "\tu, _ := url.Parse(other)\n\tif u.Hostname() != \"a.example\" {\n\t\treturn\n\t}"),
        ("", "\tu, _ := url.Parse(raw)\n\tif u.Scheme != \"https\" {\n\t\treturn\n\t}"),
        ("", "\tu, _ := url.Parse(raw)\n\tif u.Hostname() != \"a.example\" {\n\t\tuse(u)\n\t}"),
        ("", "\tif r.Host != \"a.example\" {\n\t\treturn\n\t}"),
        (
            "func check(raw string) error {\n\treturn nil\n}",
            "\tif err := check(raw); err != nil {\n\t\treturn\n\t}",
        ),
    ];
    let rows: Vec<(&str, &str, bool)> = HONEST
        .iter()
        .map(|(before, body)| (*before, *body, false))
        .chain(DISHONEST.iter().map(|(before, body)| (*before, *body, true)))
        .collect();
    table("a.go", wrap, &rows);
}
