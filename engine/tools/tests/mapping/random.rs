//! Random types and random values: each JSON answer matches the published schema, and as an argument gives
//! the value again.

use boon::{Compiler, SchemaIndex, Schemas};
use hotcell_tools::mapping::{Signature, lift, lower};
use hotcell_tools::{CallError, Limits};
use proptest::prelude::*;
use serde_json::{Value, json};
use wasmtime::component::Val;

use crate::wit::{Shelf, component, signatures};

#[derive(Clone, Debug)]
enum Ty {
    /// Name of the type, and a value.
    Plain(&'static str),
    List(Box<Ty>),
    Tuple(Vec<Ty>),
    Option(Box<Ty>),
    Result(Option<Box<Ty>>, Option<Box<Ty>>),
    Record(Vec<Ty>),
    Variant(Vec<Option<Ty>>),
    Enum(usize),
    Flags(usize),
}

const PLAIN: [&str; 13] =
    ["bool", "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "char", "string"];

fn types() -> impl Strategy<Value = Ty> {
    let leaf = prop_oneof![
        6 => proptest::sample::select(&PLAIN[..]).prop_map(Ty::Plain),
        1 => Just(Ty::List(Box::new(Ty::Plain("u8")))),
        1 => (1..5_usize).prop_map(Ty::Enum),
        1 => (1..5_usize).prop_map(Ty::Flags),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let maybe = || proptest::option::of(inner.clone().prop_map(Box::new));
        prop_oneof![
            inner.clone().prop_map(|ty| Ty::List(Box::new(ty))),
            inner.clone().prop_map(|ty| Ty::Option(Box::new(ty))),
            proptest::collection::vec(inner.clone(), 1..4).prop_map(Ty::Tuple),
            proptest::collection::vec(inner.clone(), 1..4).prop_map(Ty::Record),
            proptest::collection::vec(proptest::option::of(inner.clone()), 1..4).prop_map(Ty::Variant),
            (maybe(), maybe()).prop_map(|(ok, err)| Ty::Result(ok, err)),
        ]
    })
}

/// The type as WIT; adds the definitions that it needs.
fn wit(ty: &Ty, definitions: &mut Vec<String>) -> String {
    let mut inner = |ty: &Ty| wit(ty, definitions);
    let body = match ty {
        Ty::Plain(name) => return (*name).to_owned(),
        Ty::List(item) => return format!("list<{}>", inner(item)),
        Ty::Option(item) => return format!("option<{}>", inner(item)),
        Ty::Tuple(items) => {
            return format!("tuple<{}>", items.iter().map(inner).collect::<Vec<_>>().join(", "));
        }
        Ty::Result(ok, err) => {
            let [ok, err] = [ok, err].map(|ty| ty.as_ref().map(|ty| inner(ty)));
            return match (ok, err) {
                (None, None) => "result".into(),
                (Some(ok), None) => format!("result<{ok}>"),
                (ok, Some(err)) => format!("result<{}, {err}>", ok.unwrap_or("_".into())),
            };
        }
        Ty::Record(fields) => (
            "record",
            fields.iter().enumerate().map(|(n, ty)| format!("part-{n}: {}", inner(ty))).collect::<Vec<_>>(),
        ),
        Ty::Variant(cases) => {
            let case = |(n, ty): (usize, &Option<Ty>)| match ty {
                Some(ty) => format!("part-{n}({})", inner(ty)),
                None => format!("part-{n}"),
            };
            ("variant", cases.iter().enumerate().map(case).collect())
        }
        Ty::Enum(count) => ("enum", (0..*count).map(|n| format!("part-{n}")).collect()),
        Ty::Flags(count) => ("flags", (0..*count).map(|n| format!("part-{n}")).collect()),
    };
    let name = format!("t{}", definitions.len());
    definitions.push(format!("{} {name} {{ {} }}", body.0, body.1.join(", ")));
    name
}

fn values(ty: &Ty) -> BoxedStrategy<Val> {
    let boxed = |ty: &Option<Box<Ty>>| match ty {
        Some(ty) => values(ty).prop_map(|value| Some(Box::new(value))).boxed(),
        None => Just(None).boxed(),
    };
    match ty {
        Ty::Plain("bool") => any::<bool>().prop_map(Val::Bool).boxed(),
        Ty::Plain("u8") => any::<u8>().prop_map(Val::U8).boxed(),
        Ty::Plain("s8") => any::<i8>().prop_map(Val::S8).boxed(),
        Ty::Plain("u16") => any::<u16>().prop_map(Val::U16).boxed(),
        Ty::Plain("s16") => any::<i16>().prop_map(Val::S16).boxed(),
        Ty::Plain("u32") => any::<u32>().prop_map(Val::U32).boxed(),
        Ty::Plain("s32") => any::<i32>().prop_map(Val::S32).boxed(),
        Ty::Plain("u64") => {
            prop_oneof![any::<u64>(), (0..4_u64).prop_map(|n| (1 << 53) + n - 2)].prop_map(Val::U64).boxed()
        }
        Ty::Plain("s64") => {
            prop_oneof![any::<i64>(), (0..4_i64).prop_map(|n| -(1 << 53) + n - 2)].prop_map(Val::S64).boxed()
        }
        // All bit patterns.
        Ty::Plain("f32") => any::<u32>().prop_map(|bits| Val::Float32(f32::from_bits(bits))).boxed(),
        Ty::Plain("f64") => any::<u64>().prop_map(|bits| Val::Float64(f64::from_bits(bits))).boxed(),
        Ty::Plain("char") => any::<char>().prop_map(Val::Char).boxed(),
        Ty::Plain(_) => any::<String>().prop_map(Val::String).boxed(),
        Ty::List(item) => proptest::collection::vec(values(item), 0..4).prop_map(Val::List).boxed(),
        Ty::Option(item) => {
            proptest::option::of(values(item).prop_map(Box::new)).prop_map(Val::Option).boxed()
        }
        Ty::Tuple(items) => items.iter().map(values).collect::<Vec<_>>().prop_map(Val::Tuple).boxed(),
        Ty::Result(ok, err) => prop_oneof![
            boxed(ok).prop_map(|ok| Val::Result(Ok(ok))),
            boxed(err).prop_map(|err| Val::Result(Err(err)))
        ]
        .boxed(),
        Ty::Record(fields) => {
            let fields: Vec<_> = fields.iter().map(values).collect();
            let named = |(n, value)| (format!("part-{n}"), value);
            fields
                .prop_map(move |values| Val::Record(values.into_iter().enumerate().map(named).collect()))
                .boxed()
        }
        Ty::Variant(cases) => {
            let cases = cases.clone();
            let case = move |n: usize| {
                let name = format!("part-{n}");
                match &cases[n] {
                    Some(ty) => values(ty)
                        .prop_map(move |value| Val::Variant(name.clone(), Some(Box::new(value))))
                        .boxed(),
                    None => Just(Val::Variant(name, None)).boxed(),
                }
            };
            let Ty::Variant(all) = ty else { unreachable!() };
            (0..all.len()).prop_flat_map(case).boxed()
        }
        Ty::Enum(count) => (0..*count).prop_map(|n| Val::Enum(format!("part-{n}"))).boxed(),
        Ty::Flags(count) => {
            let set = proptest::collection::vec(any::<bool>(), *count);
            let name = |(n, set): (usize, bool)| set.then(|| format!("part-{n}"));
            set.prop_map(move |set| Val::Flags(set.into_iter().enumerate().filter_map(name).collect()))
                .boxed()
        }
    }
}

/// An independent validator of JSON Schema.
struct Judge(Schemas, SchemaIndex);

impl Judge {
    fn new(schema: &Value) -> Self {
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.set_default_draft(boon::Draft::V2020_12);
        compiler.add_resource("schema.json", schema.clone()).unwrap();
        let index =
            compiler.compile("schema.json", &mut schemas).unwrap_or_else(|error| panic!("{error}: {schema}"));
        Self(schemas, index)
    }

    fn accepts(&self, value: &Value) -> Result<(), String> {
        self.0.validate(value, self.1).map_err(|error| format!("{error:#}"))
    }
}

/// Types, each with some values.
fn cases() -> impl Strategy<Value = Vec<(Ty, Vec<Val>)>> {
    let case = types().prop_flat_map(|ty| {
        let some = proptest::collection::vec(values(&ty), 1..6);
        (Just(ty), some)
    });
    proptest::collection::vec(case, 1..6)
}

proptest! {
    // Each case compiles a component.
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn answers_match_their_schema_and_go_in_again(cases in cases()) {
        let mut definitions = Vec::new();
        let mut functions = String::new();
        for (n, (ty, _)) in cases.iter().enumerate() {
            let ty = wit(ty, &mut definitions);
            functions.push_str(&format!("a{n}: func(p: {ty}) -> tuple<{ty}>; b{n}: func() -> {ty};\n"));
        }
        let text = format!("package t:t; interface i {{ {}\n{functions} }} world w {{ export i; }}", definitions.join("\n"));
        let signatures = signatures(&component(&text)).unwrap();
        let (echo, plain) = signatures.split_at(cases.len());
        let limits = Limits::default();
        let mut shelf = Shelf::new();
        for ((_, values), (echo, plain)) in cases.iter().zip(echo.iter().zip(plain)) {
            let input = Judge::new(&echo.input_schema());
            let output = Judge::new(&echo.output_schema());
            let alone = Judge::new(&plain.output_schema());
            for value in values {
                let answer = lift(echo, &[Val::Tuple(vec![value.clone()])], &limits, &mut shelf).unwrap();
                // The text itself is passed back: a tree would not keep every number.
                let text = answer.json.as_str();
                let arguments = text.replacen("{\"result\":[", "{\"p\":", 1);
                let arguments = format!("{}}}", &arguments[..arguments.len() - 2]);
                prop_assert_eq!(lower(echo, &arguments, &limits, &mut shelf), Ok(vec![value.clone()]), "{}", text);
                prop_assert_eq!(input.accepts(&serde_json::from_str(&arguments).unwrap()), Ok(()), "{}", text);
                prop_assert_eq!(output.accepts(&serde_json::from_str(text).unwrap()), Ok(()), "{}", text);
                let answer = lift(plain, std::slice::from_ref(value), &limits, &mut shelf).unwrap();
                let json: Value = serde_json::from_str(&answer.json).unwrap();
                if answer.is_error {
                    prop_assert!(json.get("error").is_some(), "{}", json);
                } else {
                    prop_assert_eq!(alone.accepts(&json), Ok(()), "{}", json);
                }
            }
        }
    }
}

const RICH: &str = "record row { name: string, n: option<u8>, when: s64 }
    enum color { red, green }
    flags access { read, write }
    variant shape { dot, circle(f32), line(tuple<s8, list<row>>) }
    variant tree { leaf(list<u8>), pair(result<shape, color>), set(access) }
    record all { rows: list<row>, tree: tree, twice: option<option<color>>, sign: char, flag: option<bool>, f: f64 }";

/// JSON that is often nearly valid: its keys and words are those of the types.
fn json() -> impl Strategy<Value = Value> {
    let word = proptest::sample::select(
        &[
            "red", "green", "read", "write", "dot", "circle", "line", "leaf", "pair", "set", "NaN",
            "Infinity", "AP8=", "17", "-9", "x",
        ][..],
    );
    let key = proptest::sample::select(
        &[
            "rows", "tree", "twice", "sign", "flag", "f", "name", "n", "when", "tag", "value", "ok", "err",
            "some", "p", "other",
        ][..],
    );
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..300_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone().prop_map(str::to_owned), inner.clone(), 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
            (proptest::sample::select(&["dot", "circle", "line", "leaf", "pair", "set"][..]), inner.clone())
                .prop_map(|(tag, value)| json!({ "tag": tag, "value": value })),
            (inner.clone(), inner).prop_map(|(n, when)| json!({ "name": "a", "n": n, "when": when })),
        ]
    })
}

/// Converts other accepted forms to the form in the schema: small numbers for 64 bits, and a case without its
/// value.
fn strict(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(strict).collect(),
        Value::Object(mut fields) => {
            if fields.get("tag") == Some(&json!("dot")) && fields.get("value") == Some(&Value::Null) {
                fields.remove("value");
            }
            let field = |(name, value): (String, Value)| {
                let value = match (name.as_str(), value) {
                    ("when", Value::Number(number)) => {
                        // An integer may be written with a fraction.
                        #[allow(clippy::cast_possible_truncation)]
                        let whole = number.as_f64().filter(|n| n.fract() == 0.0).map(|n| n as i64);
                        whole.map_or(json!(number), |whole| json!(whole.to_string()))
                    }
                    ("ok", Value::String(case)) if case == "dot" => json!({ "tag": "dot" }),
                    (_, value) => strict(value),
                };
                (name, value)
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        plain => plain,
    }
}

fn rich() -> (Signature, Judge) {
    let signature = crate::wit::signature(RICH, "all", "all");
    let judge = Judge::new(&signature.input_schema());
    (signature, judge)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn accepted_arguments_match_schema(all in proptest::collection::vec((json(), json(), json()), 300)) {
        let (signature, judge) = rich();
        for (rows, tree, any) in all {
            let right = json!({ "p": { "rows": [], "tree": tree, "twice": null, "sign": "x", "f": 1 } });
            let listed = json!({ "p": { "rows": rows, "tree": { "tag": "set", "value": ["read"] }, "sign": "x", "f": any } });
            for arguments in [json!({ "p": any }), right, listed, any] {
                let allowed = judge.accepts(&arguments);
                match lower(&signature, &arguments.to_string(), &Limits::default(), &mut Shelf::new()) {
                    Ok(_) => {
                        let plain = judge.accepts(&strict(arguments.clone()));
                        prop_assert!(allowed.is_ok() || plain.is_ok(), "{} {:?}", arguments, plain);
                    }
                    Err(CallError::Arguments { at, message }) => {
                        prop_assert!(at.is_empty() || at.starts_with('/'), "{}", at);
                        prop_assert!(!message.is_empty());
                        // The schema does not describe base64.
                        prop_assert!(allowed.is_err() || message.contains("base64"), "{}: {} {}", arguments, at, message);
                    }
                    Err(other) => prop_assert!(false, "{}", other),
                }
            }
        }
    }

    #[test]
    fn arbitrary_argument_text_causes_no_panic(texts in proptest::collection::vec("[\\[\\]{}\":,a-z0-9.eE\\\\-]{0,60}|\\PC*", 300), cut in 0..200_usize) {
        let (signature, _) = rich();
        let good = json!({ "p": { "rows": [{ "name": "é", "when": "7" }], "tree": { "value": { "ok": { "tag": "dot" } }, "tag": "pair" }, "sign": "x", "f": 1 } }).to_string();
        let lower = |text: &str| lower(&signature, text, &Limits::default(), &mut Shelf::new());
        prop_assert!(lower(&good).is_ok());
        if let Some(part) = good.get(..cut.min(good.len() - 1)) {
            prop_assert!(lower(part).is_err());
        }
        for text in texts {
            let _ = lower(&text);
            if let Some((head, tail)) = good.split_at_checked(cut) {
                let _ = lower(&format!("{head}{text}{tail}"));
            }
        }
    }
}
