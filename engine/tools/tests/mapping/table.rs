//! Every type in both directions, and the position of each error.

use hotcell_sandbox::Bytes;
use hotcell_tools::mapping::{Signature, lift, lower};
use hotcell_tools::{CallError, Limit, Limits};
use serde_json::{Value, json};
use wasmtime::component::Val;

use crate::wit::{Shelf, component, signature, signatures};

fn lowered(signature: &Signature, arguments: &str) -> Result<Vec<Val>, CallError> {
    lower(signature, arguments, &Limits::default(), &mut Shelf::new())
}

fn lifted(signature: &Signature, value: Val) -> (bool, Value) {
    let lifted = lift(signature, &[value], &Limits::default(), &mut Shelf::new()).unwrap();
    (lifted.is_error, serde_json::from_str(&lifted.json).unwrap())
}

fn some(value: Val) -> Val {
    Val::Option(Some(Box::new(value)))
}

fn text(value: &str) -> Val {
    Val::String(value.into())
}

const TYPES: &str = "
    record point { x: s32, y: option<s32> }
    enum color { red, dark-green }
    flags access { read, write, run }
    variant shape { dot, circle(f64), line(tuple<s32, s32>), maybe(option<u8>) }
";

/// Type, JSON, value. The JSON is also the output for the value.
fn pairs() -> Vec<(&'static str, Value, Val)> {
    vec![
        ("bool", json!(true), Val::Bool(true)),
        ("u8", json!(255), Val::U8(255)),
        ("s8", json!(-128), Val::S8(-128)),
        ("u16", json!(65_535), Val::U16(65_535)),
        ("s16", json!(-32_768), Val::S16(-32_768)),
        ("u32", json!(4_294_967_295_u32), Val::U32(u32::MAX)),
        ("s32", json!(-5), Val::S32(-5)),
        ("u64", json!("0"), Val::U64(0)),
        ("u64", json!("9007199254740991"), Val::U64((1 << 53) - 1)),
        ("u64", json!("9007199254740992"), Val::U64(1 << 53)),
        ("u64", json!("18446744073709551615"), Val::U64(u64::MAX)),
        ("s64", json!("-7"), Val::S64(-7)),
        ("s64", json!("-9007199254740991"), Val::S64(-(1 << 53) + 1)),
        ("s64", json!("-9223372036854775808"), Val::S64(i64::MIN)),
        ("f32", json!(0.5), Val::Float32(0.5)),
        ("f32", json!("Infinity"), Val::Float32(f32::INFINITY)),
        ("f64", json!(0.1), Val::Float64(0.1)),
        ("f64", json!(5e-324), Val::Float64(5e-324)),
        ("f64", json!(-0.0), Val::Float64(-0.0)),
        ("f64", json!("NaN"), Val::Float64(f64::NAN)),
        ("f64", json!("-Infinity"), Val::Float64(f64::NEG_INFINITY)),
        ("char", json!("é"), Val::Char('é')),
        ("string", json!("\u{0}\"\n\u{2028}𝄞"), text("\u{0}\"\n\u{2028}𝄞")),
        ("list<u8>", json!("AP8="), Val::List(vec![Val::U8(0), Val::U8(255)])),
        ("list<u8>", json!(""), Val::List(vec![])),
        ("list<s8>", json!([1, -1]), Val::List(vec![Val::S8(1), Val::S8(-1)])),
        ("list<list<u8>>", json!(["AA=="]), Val::List(vec![Val::List(vec![Val::U8(0)])])),
        ("tuple<u8, string>", json!([1, "a"]), Val::Tuple(vec![Val::U8(1), text("a")])),
        (
            "point",
            json!({ "x": 1, "y": null }),
            Val::Record(vec![("x".into(), Val::S32(1)), ("y".into(), Val::Option(None))]),
        ),
        ("color", json!("dark-green"), Val::Enum("dark-green".into())),
        ("access", json!(["read", "run"]), Val::Flags(vec!["read".into(), "run".into()])),
        ("access", json!([]), Val::Flags(vec![])),
        ("shape", json!({ "tag": "dot" }), Val::Variant("dot".into(), None)),
        (
            "shape",
            json!({ "tag": "circle", "value": 1.5 }),
            Val::Variant("circle".into(), Some(Box::new(Val::Float64(1.5)))),
        ),
        (
            "shape",
            json!({ "tag": "maybe", "value": null }),
            Val::Variant("maybe".into(), Some(Box::new(Val::Option(None)))),
        ),
        ("option<string>", json!(null), Val::Option(None)),
        ("option<string>", json!("a"), some(text("a"))),
        ("option<option<u8>>", json!(null), Val::Option(None)),
        ("option<option<u8>>", json!({ "some": null }), some(Val::Option(None))),
        ("option<option<u8>>", json!({ "some": 1 }), some(some(Val::U8(1)))),
        ("option<option<option<u8>>>", json!({ "some": { "some": null } }), some(some(Val::Option(None)))),
        ("result<u8, string>", json!({ "ok": 1 }), Val::Result(Ok(Some(Box::new(Val::U8(1)))))),
        ("result<u8, string>", json!({ "err": "no" }), Val::Result(Err(Some(Box::new(text("no")))))),
        ("result", json!({ "ok": null }), Val::Result(Ok(None))),
        ("result<_, string>", json!({ "ok": null }), Val::Result(Ok(None))),
        ("result<u8>", json!({ "err": null }), Val::Result(Err(None))),
        (
            "list<result<_, color>>",
            json!([{ "err": "red" }]),
            Val::List(vec![Val::Result(Err(Some(Box::new(Val::Enum("red".into())))))]),
        ),
    ]
}

#[test]
fn values_are_the_same_in_both_directions() {
    for (ty, json, value) in pairs() {
        let signature = signature(TYPES, ty, &format!("tuple<{ty}>"));
        let arguments = json!({ "p": json }).to_string();
        assert_eq!(lowered(&signature, &arguments).as_ref(), Ok(&vec![value.clone()]), "{ty}: {arguments}");
        let (is_error, answer) = lifted(&signature, Val::Tuple(vec![value]));
        assert_eq!((is_error, &answer), (false, &json!({ "result": [json] })), "{ty}");
    }
}

/// Other accepted forms than the output's.
#[test]
fn alternative_number_forms_are_accepted() {
    for (ty, arguments, value) in [
        ("u8", r#"{"p":1.0}"#, Val::U8(1)),
        ("u16", r#"{"p":1e3}"#, Val::U16(1_000)),
        ("s8", r#"{"p":-0}"#, Val::S8(0)),
        ("u64", r#"{"p":7}"#, Val::U64(7)),
        ("u64", r#"{"p":7.0}"#, Val::U64(7)),
        ("s64", r#"{"p":-7}"#, Val::S64(-7)),
        ("u64", r#"{"p":9007199254740991}"#, Val::U64((1 << 53) - 1)),
        ("s64", r#"{"p":-9007199254740991}"#, Val::S64(1 - (1 << 53))),
        ("s64", r#"{"p":"-9223372036854775808"}"#, Val::S64(i64::MIN)),
        ("f32", r#"{"p":1}"#, Val::Float32(1.0)),
        ("f64", r#"{"p":9007199254740993}"#, Val::Float64(9_007_199_254_740_992.0)),
        ("list<u8>", r#"{"p":"AP8"}"#, Val::List(vec![Val::U8(0), Val::U8(255)])),
        ("list<u8>", r#"{"p":"\u0041P8="}"#, Val::List(vec![Val::U8(0), Val::U8(255)])),
        ("list<u8>", r#"{"p":"-_8="}"#, Val::List(vec![Val::U8(251), Val::U8(255)])),
        ("list<u8>", r#"{"p":"a-_-"}"#, Val::List(vec![Val::U8(107), Val::U8(239), Val::U8(254)])),
        ("shape", r#"{"p":{"tag":"dot","value":null}}"#, Val::Variant("dot".into(), None)),
        ("shape", r#"{"p":{"value":null,"tag":"dot"}}"#, Val::Variant("dot".into(), None)),
        ("shape", r#"{"p":"dot"}"#, Val::Variant("dot".into(), None)),
        (
            "point",
            r#"{"p":{"x":1}}"#,
            Val::Record(vec![("x".into(), Val::S32(1)), ("y".into(), Val::Option(None))]),
        ),
        ("access", r#"{"p":["run","read"]}"#, Val::Flags(vec!["read".into(), "run".into()])),
        (
            "shape",
            r#"{"p":{"value":[1,2],"tag":"line"}}"#,
            Val::Variant("line".into(), Some(Box::new(Val::Tuple(vec![Val::S32(1), Val::S32(2)])))),
        ),
        (
            "shape",
            r#"{"p":{"tag":"maybe"}}"#,
            Val::Variant("maybe".into(), Some(Box::new(Val::Option(None)))),
        ),
        ("option<u8>", "{}", Val::Option(None)),
        ("option<option<u8>>", " { } ", Val::Option(None)),
    ] {
        assert_eq!(lowered(&signature(TYPES, ty, "u8"), arguments), Ok(vec![value]), "{ty}: {arguments}");
    }
}

#[test]
fn mismatched_argument_is_refused_with_path() {
    for (ty, arguments, place, message) in [
        ("u8", r#"{"p":256}"#, "/p", "expected an integer from 0 to 255, found 256"),
        ("u8", r#"{"p":-1}"#, "/p", "from 0 to 255"),
        ("u8", r#"{"p":1.5}"#, "/p", "found 1.5"),
        ("u8", r#"{"p":"1"}"#, "/p", "found the string \"1\""),
        ("u8", r#"{"p":null}"#, "/p", "found null"),
        ("u8", r#"{"p":1,"p":2}"#, "/p", "given twice"),
        ("u8", r#"{"p":1} x"#, "", "not JSON"),
        ("u8", r#"{"p":1"#, "", "not JSON"),
        ("u8", r#"{"p":01}"#, "/p", "not JSON"),
        ("u8", "[]", "", "expected an object"),
        ("u8", "null", "", "expected an object"),
        ("u8", "", "", "not JSON"),
        ("u8", "{}", "/p", "missing; expected an integer"),
        ("u8", r#"{"P":1}"#, "/P", "unknown argument 'P'"),
        ("u64", r#"{"p":9007199254740992}"#, "/p", "has to be a string beyond 2^53 - 1"),
        ("s64", r#"{"p":-9007199254740992}"#, "/p", "has to be a string beyond 2^53 - 1"),
        ("u64", r#"{"p":18446744073709551615}"#, "/p", "has to be a string beyond 2^53 - 1"),
        ("u64", r#"{"p":18446744073709551616}"#, "/p", "expected an integer"),
        ("u64", r#"{"p":"18446744073709551616"}"#, "/p", "expected an integer"),
        ("u64", r#"{"p":"+1"}"#, "/p", "expected an integer"),
        ("u64", r#"{"p":"-1"}"#, "/p", "expected an integer"),
        ("u64", r#"{"p":""}"#, "/p", "expected an integer"),
        ("s64", r#"{"p":1e17}"#, "/p", "expected an integer"),
        ("f32", r#"{"p":1e39}"#, "/p", "found 1e39, which is beyond its range"),
        ("f64", r#"{"p":1e999}"#, "/p", "expected a number"),
        ("f64", r#"{"p":"inf"}"#, "/p", "expected a number"),
        ("f64", r#"{"p":[1]}"#, "/p", "found an array"),
        ("char", r#"{"p":"ab"}"#, "/p", "found 2 characters"),
        ("char", r#"{"p":""}"#, "/p", "found 0 characters"),
        ("string", r#"{"p":"\ud800"}"#, "/p", "not JSON"),
        ("string", r#"{"p":{}}"#, "/p", "expected a string, found an object"),
        ("list<u8>", r#"{"p":"*"}"#, "/p", "expected base64"),
        ("list<u8>", r#"{"p":[1]}"#, "/p", "expected a base64 string, found an array"),
        ("list<u16>", r#"{"p":[1,2,"a"]}"#, "/p/2", "expected an integer"),
        ("tuple<u8, u8>", r#"{"p":[1]}"#, "/p", "expected an array of 2, found an array of 1"),
        ("tuple<u8, u8>", r#"{"p":[1,2,3]}"#, "/p", "found more"),
        ("point", r#"{"p":{"x":1,"z":2}}"#, "/p/z", "unknown key 'z': known are x, y"),
        ("point", r#"{"p":{"x":1,"x":2}}"#, "/p/x", "given twice"),
        ("point", r#"{"p":{"y":1}}"#, "/p/x", "missing"),
        ("list<point>", r#"{"p":[{"x":1},{"x":"a"}]}"#, "/p/1/x", "expected an integer"),
        ("color", r#"{"p":"dark_green"}"#, "/p", "unknown value 'dark_green': is 'dark-green' meant?"),
        ("color", r#"{"p":1}"#, "/p", "expected one of red, dark-green"),
        ("access", r#"{"p":["read","read"]}"#, "/p/1", "given twice"),
        ("access", r#"{"p":["write","reed"]}"#, "/p/1", "is 'read' meant?"),
        ("access", r#"{"p":[1]}"#, "/p/0", "expected a string"),
        ("access", r#"{"p":{"read":true}}"#, "/p", "expected an array of read, write, run"),
        ("shape", r#"{"p":{}}"#, "/p/tag", "missing"),
        ("shape", r#"{"p":{"tag":"dots"}}"#, "/p/tag", "is 'dot' meant?"),
        ("shape", r#"{"p":{"tag":7}}"#, "/p/tag", "expected a string, found 7"),
        ("shape", r#"{"p":{"tag":"dot","value":1}}"#, "/p/value", "has no value"),
        ("shape", r#"{"p":{"value":1,"tag":"dot"}}"#, "/p/value", "has no value"),
        ("shape", r#"{"p":{"tag":"circle"}}"#, "/p/value", "missing"),
        ("shape", r#"{"p":{"value":"a","tag":"circle"}}"#, "/p/value", "expected a number"),
        ("shape", r#"{"p":{"value":[1,"a"],"tag":"line"}}"#, "/p/value/1", "expected an integer"),
        ("shape", r#"{"p":{"tag":"dot","tag":"dot"}}"#, "/p/tag", "given twice"),
        ("shape", r#"{"p":{"tag":"dot","more":1}}"#, "/p/more", "unknown key"),
        ("shape", r#"{"p":"circle"}"#, "/p", r#"a case is written {"tag": "circle", "value": …}"#),
        ("shape", r#"{"p":"circel"}"#, "/p", "unknown case 'circel': is 'circle' meant?"),
        ("shape", r#"{"p":{"circle":1}}"#, "/p/circle", r#"a case is written {"tag": "circle", "value": …}"#),
        ("list<u8>", r#"{"p":"a-_+"}"#, "/p", "'-' at byte 1"),
        ("list<u8>", r#"{"p":"AAAAA"}"#, "/p", "5 characters"),
        ("option<option<u8>>", r#"{"p":1}"#, "/p", "null or {\"some\": …}"),
        ("option<option<u8>>", r#"{"p":{"some":"a"}}"#, "/p/some", "expected an integer"),
        ("option<option<u8>>", r#"{"p":{}}"#, "/p", "one key: some"),
        ("result<u8>", r#"{"p":{"ok":1,"err":null}}"#, "/p/err", "one key: ok or err"),
        ("result<u8>", r#"{"p":{"err":1}}"#, "/p/err", "expected null"),
        ("result<u8>", r#"{"p":{"okay":1}}"#, "/p/okay", "is 'ok' meant?"),
        ("point", r#"{"p":{"a/b~c":1}}"#, "/p/a~1b~0c", "unknown key"),
    ] {
        match lowered(&signature(TYPES, ty, "u8"), arguments) {
            Err(CallError::Arguments { at, message: found }) => {
                assert!(at == place && found.contains(message), "{ty} {arguments}: {at}: {found}");
            }
            other => panic!("{ty} {arguments}: {other:?}"),
        }
    }
}

#[test]
fn answers_are_objects() {
    let wit = "package t:t; interface i { record row { n: u8 }
        a: func(); b: func() -> u8; c: func() -> row; d: func() -> result<row, string>; e: func() -> result<u8>;
        f: func() -> result; g: func() -> result<option<u8>, row>; h: func() -> option<row>; } world w { export i; }";
    let [a, b, c, d, e, f, g, h] = &signatures(&component(wit)).unwrap()[..] else {
        panic!("eight functions")
    };
    let row = || Val::Record(vec![("n".into(), Val::U8(1))]);
    let ok = |value: Option<Val>| Val::Result(Ok(value.map(Box::new)));
    let err = |value: Option<Val>| Val::Result(Err(value.map(Box::new)));
    for (signature, value, is_error, json) in [
        (b, Val::U8(1), false, json!({ "result": 1 })),
        (c, row(), false, json!({ "n": 1 })),
        (d, ok(Some(row())), false, json!({ "n": 1 })),
        (d, err(Some(text("no"))), true, json!({ "error": "no" })),
        (e, ok(Some(Val::U8(1))), false, json!({ "result": 1 })),
        (e, err(None), true, json!({ "error": null })),
        (f, ok(None), false, json!({})),
        (f, err(None), true, json!({ "error": null })),
        (g, ok(Some(Val::Option(None))), false, json!({ "result": null })),
        (g, err(Some(row())), true, json!({ "error": { "n": 1 } })),
        (h, Val::Option(None), false, json!({ "result": null })),
        (h, some(row()), false, json!({ "result": { "n": 1 } })),
    ] {
        assert_eq!(lifted(signature, value), (is_error, json));
    }
    let nothing = lift(a, &[], &Limits::default(), &mut Shelf::new()).unwrap();
    assert_eq!((nothing.is_error, nothing.json.as_str()), (false, "{}"));
    assert_eq!(
        a.output_schema(),
        json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": false })
    );
    assert_eq!(c.output_schema(), d.output_schema());
    // A value of another type is a bug of the host, so it is an error and not an answer.
    for wrong in [Val::U16(1), Val::Record(vec![])] {
        let error = lift(c, &[wrong], &Limits::default(), &mut Shelf::new()).unwrap_err();
        assert!(matches!(error, CallError::Host { .. }), "{error}");
    }
}

#[test]
fn blobs_are_base64() {
    let wit = "package hotcell:tool@0.1.0; interface blob { resource blob { constructor(bytes: list<u8>); } }
        interface tools { use blob.{blob}; record file { name: string, content: blob }
            turn: func(file: file, more: option<blob>) -> result<file, blob>; } world w { import blob; export tools; }";
    let signature = signatures(&component(wit)).unwrap().remove(0);
    let properties = &signature.input_schema()["properties"];
    assert_eq!(
        properties["file"]["properties"]["content"],
        json!({ "type": "string", "contentEncoding": "base64" })
    );
    let mut shelf = Shelf::new();
    let limits = Limits::default();
    let arguments = r#"{"file":{"name":"a","content":"AP8="}}"#;
    let values = lower(&signature, arguments, &limits, &mut shelf).unwrap();
    let answer =
        lift(&signature, &[Val::Result(Ok(Some(Box::new(values[0].clone()))))], &limits, &mut shelf).unwrap();
    assert_eq!(answer.json, r#"{"name":"a","content":"AP8="}"#);
    // A handle that was used already is an error, and so is one of another table.
    let again = lift(&signature, &[Val::Result(Ok(Some(Box::new(values[0].clone()))))], &limits, &mut shelf);
    assert!(matches!(again, Err(CallError::Host { .. })), "{again:?}");
    let error = lower(&signature, r#"{"file":{"name":"a","content":"?"}}"#, &limits, &mut shelf).unwrap_err();
    assert_eq!(
        error.to_string(),
        "arguments/file/content: expected base64, and '?' at byte 0 is not part of it"
    );
}

#[test]
fn limits_hold_in_both_directions() {
    let signature = signature("", "list<list<list<string>>>", "list<list<list<string>>>");
    let value = |text: &str| Val::List(vec![Val::List(vec![Val::List(vec![Val::String(text.into())])])]);
    let arguments = r#"{"p":[[["ab"]]]}"#;
    let limits = |change: &dyn Fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits
    };
    let reached = |error: CallError| match error {
        CallError::Limit { limit, .. } => limit,
        other => panic!("{other}"),
    };
    let shelf = &mut Shelf::new();
    for (depth, fits) in [(4, true), (3, false)] {
        let limits = limits(&|limits| limits.depth = depth);
        assert_eq!(
            lower(&signature, arguments, &limits, shelf).map_err(reached).err(),
            (!fits).then_some(Limit::Depth)
        );
        let answer = lift(&signature, &[value("ab")], &limits, shelf).map(drop);
        assert_eq!(answer.map_err(reached).err(), (!fits).then_some(Limit::Depth));
    }
    // `{"result":[[["ab"]]]}` has 21 bytes, `{"p":[[["ab"]]]}` has 16.
    for (bytes, fits) in [(21, true), (20, false), (0, false)] {
        let limits = limits(&|limits| limits.result = Bytes(bytes));
        let answer = lift(&signature, &[value("ab")], &limits, shelf).map(drop);
        assert_eq!(answer.map_err(reached).err(), (!fits).then_some(Limit::Result));
    }
    let escaped =
        lift(&signature, &[value(&"\u{1}".repeat(10))], &limits(&|limits| limits.result = Bytes(60)), shelf);
    assert_eq!(
        escaped.map_err(reached).map(drop),
        Err(Limit::Result),
        "what is escaped counts as it is written"
    );
    for (bytes, fits) in [(16, true), (15, false)] {
        let limits = limits(&|limits| limits.arguments = Bytes(bytes));
        assert_eq!(
            lower(&signature, arguments, &limits, shelf).map_err(reached).err(),
            (!fits).then_some(Limit::Arguments)
        );
    }
    let deep = format!("{{\"p\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(lower(&signature, &deep, &Limits::default(), shelf).is_err());
}

#[test]
fn repeated_map_key_takes_last_value() {
    let mut config = wasmtime::Config::new();
    config.wasm_component_model_map(true);
    let engine = wasmtime::Engine::new(&config).unwrap();
    let text = r#"(component
        (core module $m
            (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable)
            (func (export "f") (param i32 i32) (result i32) unreachable))
        (core instance $i (instantiate $m))
        (type $map (map string u8))
        (type $other (map u32 bool))
        (func (export "f") (param "p" $map) (result $map)
            (canon lift (core func $i "f") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
        (func (export "g") (param "p" $other) (result $other)
            (canon lift (core func $i "f") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))"#;
    let component = wasmtime::component::Component::new(&engine, wat::parse_str(text).unwrap()).unwrap();
    let tools = hotcell_tools::component::describe::tools(&component, &engine).unwrap();
    let [f, g] = [&tools[0].signature, &tools[1].signature];
    let entry = |key: &str, value| (Val::String(key.into()), Val::U8(value));
    let map = Val::Map(vec![entry("a", 1), entry("b", 2), entry("a", 3)]);
    assert_eq!(lifted(f, map), (false, json!({ "result": { "a": 3, "b": 2 } })));
    assert_eq!(lowered(f, r#"{"p":{"x":1}}"#), Ok(vec![Val::Map(vec![entry("x", 1)])]));
    let error = lowered(f, r#"{"p":{"x":1,"x":2}}"#).unwrap_err();
    assert_eq!(error.to_string(), "arguments/p/x: this key is given twice");
    assert_eq!(
        f.input_schema()["properties"]["p"],
        json!({ "type": "object", "additionalProperties": { "type": "integer", "minimum": 0, "maximum": 255 } })
    );
    let map = Val::Map(vec![(Val::U32(7), Val::Bool(true))]);
    assert_eq!(lowered(g, r#"{"p":[[7,true]]}"#), Ok(vec![map.clone()]));
    assert_eq!(lifted(g, map), (false, json!({ "result": [[7, true]] })));
    assert_eq!(
        lowered(g, r#"{"p":[[7]]}"#).unwrap_err().to_string(),
        "arguments/p/0: expected an array of [key, value], found an array of 1"
    );
}
