//! The memory that the host uses for requests and their header fields is limited, however much a guest
//! passes.

use hotcell_sandbox::Bytes;
use hotcell_tools::{CallError, Limit, Limits, Prepared};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::support::{run, runtime};

/// A module that imports `wasi:http/types` of this version, with the functions of both that are used here. It
/// exports `run`, which takes one number, and has a memory of 2 MiB, whose first part is a path.
fn guest(version: &str, module: &str) -> Prepared {
    let (request, functions) = match version {
        "0.2.0" => ("outgoing-request", "constructor(headers: fields);"),
        _ => (
            "request",
            "new: static func(headers: fields, contents: option<stream<u8>>,
                trailers: future<result<option<fields>, error-code>>, options: option<request-options>)
                -> tuple<request, future<result<_, error-code>>>;",
        ),
    };
    let more = if version == "0.2.0" {
        "variant header-error { invalid-syntax, forbidden, immutable }"
    } else {
        "variant header-error { invalid-syntax, forbidden, immutable, size-exceeded, other(option<string>) }
        resource request-options {}
        record dns-error-payload { rcode: option<string>, info-code: option<u16> }
        record tls-alert-received-payload { alert-id: option<u8>, alert-message: option<string> }
        record field-size-payload { field-name: option<string>, field-size: option<u32> }
        variant error-code {
            DNS-timeout, DNS-error(dns-error-payload), destination-not-found, destination-unavailable,
            destination-IP-prohibited, destination-IP-unroutable, connection-refused, connection-terminated, connection-timeout,
            connection-read-timeout, connection-write-timeout, connection-limit-reached, TLS-protocol-error,
            TLS-certificate-error, TLS-alert-received(tls-alert-received-payload), HTTP-request-denied,
            HTTP-request-length-required, HTTP-request-body-size(option<u64>), HTTP-request-method-invalid,
            HTTP-request-URI-invalid, HTTP-request-URI-too-long, HTTP-request-header-section-size(option<u32>),
            HTTP-request-header-size(option<field-size-payload>), HTTP-request-trailer-section-size(option<u32>),
            HTTP-request-trailer-size(field-size-payload), HTTP-response-incomplete,
            HTTP-response-header-section-size(option<u32>), HTTP-response-header-size(field-size-payload),
            HTTP-response-body-size(option<u64>), HTTP-response-trailer-section-size(option<u32>),
            HTTP-response-trailer-size(field-size-payload), HTTP-response-transfer-coding(option<string>),
            HTTP-response-content-coding(option<string>), HTTP-response-timeout, HTTP-upgrade-failed, HTTP-protocol-error,
            loop-detected, configuration-error, internal-error(option<string>)
        }"
    };
    let wit = format!(
        "package t:t;
        world w {{ import wasi:http/types@{version}; export run: func(number: u32) -> u32; }}
        package wasi:http@{version} {{ interface types {{
            {more}
            variant method {{ get, head, post, put, delete, connect, options, trace, patch, other(string) }}
            variant scheme {{ HTTP, HTTPS, other(string) }}
            resource fields {{
                constructor();
                from-list: static func(entries: list<tuple<string, list<u8>>>) -> result<fields, header-error>;
                append: func(name: string, value: list<u8>) -> result<_, header-error>;
                set: func(name: string, value: list<list<u8>>) -> result<_, header-error>;
                clone: func() -> fields;
            }}
            resource {request} {{
                {functions}
                set-method: func(method: method) -> result;
                set-scheme: func(scheme: option<scheme>) -> result;
                set-authority: func(authority: option<string>) -> result;
                set-path-with-query: func(path: option<string>) -> result;
            }}
        }} }}"
    );
    let types = format!("wasi:http/types@{version}");
    // How a request with these fields is made: this is the only difference between the two versions.
    let (import, make) = match version {
        "0.2.0" => (
            format!(r#"(import "{types}" "[constructor]outgoing-request" (func $new (param i32) (result i32)))"#),
            "(call $new (call $fields))",
        ),
        _ => (
            format!(
                r#"(import "{types}" "[future-new-1][static]request.new" (func $future (result i64)))
                (import "{types}" "[async-lower][future-write-1][static]request.new" (func $write (param i32 i32) (result i32)))
                (import "{types}" "[static]request.new" (func $new (param i32 i32 i32 i32 i32 i32 i32)))"#
            ),
            "(call $new (call $fields) (i32.const 0) (i32.const 0) (i32.wrap_i64 (call $future)) (i32.const 0)
                (i32.const 0) (i32.const 2000000)) (i32.load (i32.const 2000000))",
        ),
    };
    let text = format!(
        r#"(module {import}
            (import "{types}" "[constructor]fields" (func $fields (result i32)))
            (import "{types}" "[static]fields.from-list" (func $list (param i32 i32 i32)))
            (import "{types}" "[method]fields.append" (func $append (param i32 i32 i32 i32 i32 i32)))
            (import "{types}" "[method]fields.set" (func $set (param i32 i32 i32 i32 i32 i32)))
            (import "{types}" "[method]fields.clone" (func $clone (param i32) (result i32)))
            (import "{types}" "[method]{request}.set-method" (func $method (param i32 i32 i32 i32) (result i32)))
            (import "{types}" "[method]{request}.set-scheme" (func $scheme (param i32 i32 i32 i32 i32) (result i32)))
            (import "{types}" "[method]{request}.set-authority" (func $authority (param i32 i32 i32 i32) (result i32)))
            (import "{types}" "[method]{request}.set-path-with-query" (func $path (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 32)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
            (func $request (result i32) {make})
            (func $begin (i32.store8 (i32.const 0) (i32.const 47)) (memory.fill (i32.const 1) (i32.const 65) (i32.const 1048576)))
            {module})"#
    );
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", &wit).unwrap_or_else(|error| panic!("{error:#}\n{wit}"));
    let world = resolve.select_world(&[package], Some("w")).expect("a world");
    let mut module = wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"));
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("types");
    let encoded =
        ComponentEncoder::default().module(&module).and_then(|encoder| encoder.validate(true).encode());
    let wasm = encoded.unwrap_or_else(|error| panic!("{error:#}"));
    runtime().load(&wasm).unwrap_or_else(|error| panic!("{error}"))
}

async fn call(guest: &Prepared, number: usize, memory: Bytes) -> Result<String, CallError> {
    let answer = run(guest, |request| {
        request.arguments = format!(r#"{{"number":{number}}}"#);
        request.limits = Limits { memory, ..Limits::default() };
    });
    answer.await.map(|answer| answer.value.get().to_owned())
}

fn is_memory(result: &Result<String, CallError>) -> bool {
    matches!(result, Err(CallError::Limit { limit: Limit::Memory, .. }))
}

#[tokio::test]
async fn request_line_parts_are_limited() {
    // For twenty requests: 1 for each refused method, 100 for each refused authority, 10,000 for each refused
    // path, a million for each refused scheme.
    let set = r#"(func (export "run") (param $length i32) (result i32) (local $n i32) (local $r i32) (local $refused i32)
        (call $begin)
        (loop
            (local.set $r (call $request))
            (local.set $refused (i32.add (local.get $refused)
                (call $method (local.get $r) (i32.const 9) (i32.const 1) (local.get $length))))
            (local.set $refused (i32.add (local.get $refused) (i32.mul (i32.const 100)
                (call $authority (local.get $r) (i32.const 1) (i32.const 1) (local.get $length)))))
            (local.set $refused (i32.add (local.get $refused) (i32.mul (i32.const 10000)
                (call $path (local.get $r) (i32.const 1) (i32.const 0) (local.get $length)))))
            (local.set $refused (i32.add (local.get $refused) (i32.mul (i32.const 1000000)
                (call $scheme (local.get $r) (i32.const 1) (i32.const 2) (i32.const 1) (local.get $length)))))
            (br_if 0 (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 20))))
        (local.get $refused))"#;
    for version in ["0.2.0", "0.3.0"] {
        let guest = guest(version, set);
        for (length, wanted) in [
            (60, r#"{"result":0}"#),
            (8 << 10, r#"{"result":20000000}"#),
            ((8 << 10) + 1, r#"{"result":20202020}"#),
            (1 << 20, r#"{"result":20202020}"#),
        ] {
            let refused = call(&guest, length, Bytes::mib(64)).await.expect("an answer");
            assert_eq!(refused, wanted, "{version}, {length}");
        }
        // The memory, and twenty times four lines of 8 KiB, one of which is refused for another reason.
        assert!(is_memory(&call(&guest, 8 << 10, Bytes::kib(2048 + 630)).await), "{version}");
        call(&guest, 8 << 10, Bytes::kib(2048 + 650)).await.expect("an answer");
    }
}

#[tokio::test]
async fn header_fields_count_as_memory() {
    let times = |fill: &str| {
        format!(
            r#"(func (export "run") (param $times i32) (result i32) (local $n i32) (local $last i32)
            (call $begin)
            (local.set $last (call $fields))
            ;; A name of one letter, a value of 60,000 bytes, and these two as a list.
            (i32.store (i32.const 2000000) (i32.const 1)) (i32.store (i32.const 2000004) (i32.const 1))
            (i32.store (i32.const 2000008) (i32.const 1)) (i32.store (i32.const 2000012) (i32.const 60000))
            (loop {fill}
                (br_if 0 (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (local.get $times))))
            (i32.const 7))"#
        )
    };
    let append = "(call $append (call $fields) (i32.const 1) (i32.const 1) (i32.const 1) (i32.const 60000) (i32.const 2000020))";
    let set = "(call $set (call $fields) (i32.const 1) (i32.const 1) (i32.const 2000008) (i32.const 1) (i32.const 2000020))";
    let list = "(call $list (i32.const 2000000) (i32.const 1) (i32.const 2000020))";
    let clone =
        "(call $append (local.get $last) (i32.const 1) (i32.const 1) (i32.const 1) (i32.const 600) (i32.const 2000020))
        (local.set $last (call $clone (local.get $last)))";
    for version in ["0.2.0", "0.3.0"] {
        for (how, fill, times_of) in
            [("append", append, 500), ("set", set, 500), ("list", list, 500), ("clone", clone, 99)]
        {
            let guest = guest(version, &times(fill));
            let result = call(&guest, times_of, Bytes::mib(5)).await;
            assert!(is_memory(&result), "{version}, {how}: {result:?}");
            assert_eq!(call(&guest, 10, Bytes::mib(5)).await.expect("an answer"), r#"{"result":7}"#, "{how}");
        }
    }
}

#[tokio::test]
async fn header_fields_of_one_set_are_bounded() {
    // Adds fields of 600 bytes to one set until one is refused; returns the number of accepted ones.
    let fill = r#"(func (export "run") (param $times i32) (result i32) (local $n i32) (local $fields i32)
        (call $begin)
        (local.set $fields (call $fields))
        (loop
            (call $append (local.get $fields) (i32.const 1) (i32.const 1) (i32.const 1) (i32.const 600) (i32.const 2000020))
            (if (i32.load8_u (i32.const 2000020)) (then (return (local.get $n))))
            (br_if 0 (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (local.get $times))))
        (local.get $n))"#;
    // WASI 0.2 has no error code for it, and ends the guest.
    let first = guest("0.2.0", fill);
    let result = call(&first, 200, Bytes::mib(64)).await;
    assert!(
        matches!(&result, Err(CallError::Trap { message, .. }) if message.contains("total size of fields exceeds")),
        "{result:?}"
    );
    let second = call(&guest("0.3.0", fill), 200, Bytes::mib(64)).await.expect("an answer");
    let taken: usize = second.trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("a number");
    assert!((80..110).contains(&taken), "64 KiB of 600 bytes and their overhead: {taken}");
    assert_eq!(call(&first, 50, Bytes::mib(64)).await.expect("an answer"), r#"{"result":50}"#);
}

#[tokio::test]
async fn unread_http_errors_count_as_memory() {
    // Makes `times` requests whose trailers failed with an internal error that is a mebibyte long.
    let fail = r#"(func (export "run") (param $times i32) (result i32) (local $n i32) (local $future i64)
        (call $begin)
        (i32.store8 (i32.const 2000000) (i32.const 1))
        (i32.store8 (i32.const 2000008) (i32.const 38))
        (i32.store8 (i32.const 2000016) (i32.const 1))
        (i32.store (i32.const 2000020) (i32.const 1))
        (i32.store (i32.const 2000024) (i32.const 1048576))
        (loop
            (local.set $future (call $future))
            (call $new (call $fields) (i32.const 0) (i32.const 0) (i32.wrap_i64 (local.get $future)) (i32.const 0)
                (i32.const 0) (i32.const 2000040))
            (drop (call $write (i32.wrap_i64 (i64.shr_u (local.get $future) (i64.const 32))) (i32.const 2000000)))
            (br_if 0 (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (local.get $times))))
        (i32.const 7))"#;
    let guest = guest("0.3.0", fail);
    assert_eq!(call(&guest, 7, Bytes::mib(10)).await.expect("an answer"), r#"{"result":7}"#);
    let result = call(&guest, 9, Bytes::mib(10)).await;
    assert!(is_memory(&result), "{result:?}");
}
