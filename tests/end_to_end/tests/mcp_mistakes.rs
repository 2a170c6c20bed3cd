//! Wrong arguments of every kind for every tool, made from the schemas that the server publishes: each answer
//! names the argument and what is wanted, in few plain words, and the server goes on.

use hotcell_end_to_end::User;
use hotcell_end_to_end::mcp::{Local, STATELESS};
use serde_json::{Map, Value, json};

/// Maximum length in characters of an error without the value and the name that were sent; about 60 tokens.
const MAX_ERROR_CHARS: usize = 260;

/// A wrong call: its arguments, and the words of which the answer has at least one.
struct Wrong {
    arguments: Value,
    words: Vec<String>,
}

/// The smallest value that a schema takes.
fn good(schema: &Value) -> Value {
    if let Some(word) = schema["enum"].get(0) {
        return word.clone();
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => schema["minimum"].as_i64().unwrap_or(1).into(),
        Some("boolean") => false.into(),
        Some("array") => json!([good(&schema["items"])]),
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            required
                .map(|name| (name.to_owned(), good(&schema["properties"][name])))
                .collect::<Map<_, _>>()
                .into()
        }
        _ => "x".into(),
    }
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, at| if at % 2 == 0 { json!([inner]) } else { json!({ "a": inner }) })
}

/// Values that a schema does not take.
fn bad(schema: &Value, required: bool) -> Vec<Value> {
    let kind = schema["type"].as_str().unwrap_or_default();
    let long = "y".repeat(1 << 20);
    let mut all = vec![nested(60), nested(61)];
    if required {
        all.push(Value::Null);
    }
    for (of, value) in [
        ("string", json!(long)),
        ("string", json!("a\u{200b}\u{202e}b\u{e0041}\u{0}\n")),
        ("string", json!("{\"a\": 1}")),
        ("string", json!("3")),
        ("string", json!("2.5")),
        ("string", json!("true")),
        ("integer", json!(1)),
        ("number", json!(1.5)),
        ("number", json!(1e300)),
        ("number", json!(-1e25)),
        ("boolean", json!(true)),
        ("array", json!([1, 2])),
        ("array", json!([null, {}])),
        ("array", json!([[["x"]]])),
        ("object", json!({ "zzz": 1 })),
    ] {
        let fits = of == kind || (of == "integer" && kind == "number");
        // A list or an object of another content, a word outside the choice.
        if !fits || matches!(kind, "array" | "object") || schema.get("enum").is_some() {
            all.push(value);
        }
    }
    if matches!(kind, "integer" | "number") {
        all.extend([json!(-1), json!(1e300)]);
    }
    if let Some(word) = schema["enum"][0].as_str() {
        all.push(json!(format!("{word}x")));
    }
    all
}

/// Puts a value at a path of names; an item of a list is its first.
fn put(whole: &mut Value, schema: &Value, path: &[&str], value: Option<Value>) {
    let (Some((name, rest)), Some(fields)) = (path.split_first(), whole.as_object_mut()) else { return };
    let property = &schema["properties"][*name];
    if rest.is_empty() {
        match value {
            Some(value) => fields.insert((*name).to_owned(), value),
            None => fields.shift_remove(*name),
        };
        return;
    }
    let inner = fields.entry(*name).or_insert_with(|| good(property));
    match property["type"] == "array" {
        true => put(&mut inner[0], &property["items"], rest, value),
        false => put(inner, property, rest, value),
    }
}

/// All wrong calls of a tool, by its schema.
fn wrongs(whole: &Value, at: &Value, path: &[&str], found: &mut Vec<Wrong>) {
    let mut base = good(whole);
    // Of run_tests one of two is required, which no schema that every client takes can say.
    if whole["required"].is_null() && whole["properties"]["framework"].is_object() {
        base["files"] = json!([{ "path": "x", "content": "" }]);
    }
    let mut with = |path: &[&str], value: Option<Value>, words: &[&str]| {
        let mut arguments = base.clone();
        put(&mut arguments, whole, path, value);
        found.push(Wrong { arguments, words: words.iter().map(|&w| w.to_owned()).collect() });
    };
    let required = |name: &str| at["required"].as_array().is_some_and(|all| all.iter().any(|r| r == name));
    let properties = at["properties"].as_object().cloned().unwrap_or_default();
    for (name, property) in &properties {
        let here = [path, &[name.as_str()]].concat();
        for value in bad(property, required(name)) {
            with(&here, Some(value), &[name]);
        }
        if required(name) {
            with(&here, None, &[name]);
        }
        // A name that is nearly right, beside the right one.
        let near = &name[..name.len() - 1];
        if !properties.contains_key(near) {
            with(&[path, &[near]].concat(), Some(good(property)), &[near]);
        }
    }
    let long = "q".repeat(1 << 20);
    for (name, shown) in
        [("zzz", "zzz"), ("a\u{200b}b", "a\\u{200b}b"), ("__proto__", "__proto__"), (&long, "qqq")]
    {
        with(&[path, &[name]].concat(), Some(json!(1)), &[shown]);
    }
    for (name, property) in &properties {
        let inner = if property["type"] == "array" { &property["items"] } else { property };
        if inner["properties"].is_object() {
            wrongs(whole, inner, &[path, &[name.as_str()]].concat(), found);
        }
    }
}

/// Words of a programming language, and those that only hotcell's authors know.
const JARGON: [&str; 22] = [
    "invalid type",
    "expected",
    "u64",
    "u32",
    "i64",
    "f64",
    "usize",
    "struct",
    "variant",
    "sequence",
    "serde",
    "Option",
    "Some(",
    "None",
    "deserialize",
    "unwrap",
    "panick",
    "::",
    "Err(",
    "trailing",
    "/root/",
    "engine/",
];

#[test]
fn wrong_tool_arguments_are_explained_plainly() {
    let user = User::me();
    let mut client = Local::start(&user, STATELESS);
    let list = client.request("tools/list", json!({}));
    let (mut calls, mut longest, mut wrong) = (0, 0, Vec::new());
    for tool in list["result"]["tools"].as_array().expect("tools") {
        let (name, schema) = (tool["name"].as_str().expect("a name"), &tool["inputSchema"]);
        let mut found = Vec::new();
        wrongs(schema, schema, &[], &mut found);
        for Wrong { arguments, words } in found {
            let shown: String = arguments.to_string().chars().take(200).collect();
            let result = client.call(name, &arguments);
            let said = result["content"][0]["text"].as_str().unwrap_or_default();
            let own = said.replace(['q', 'y'], "");
            let hidden =
                |c: char| c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}');
            let faults = [
                ("it is taken", result["isError"] != true),
                ("the argument is not named", !words.iter().any(|word| said.contains(word.as_str()))),
                ("words of programmers", JARGON.iter().any(|word| said.contains(word))),
                ("characters that nobody sees", said.chars().any(hidden)),
                ("too long", own.chars().count() > MAX_ERROR_CHARS || result.to_string().len() > 2_000),
            ];
            let found = faults.iter().filter(|(_, is)| *is);
            wrong.extend(found.map(|(what, _)| format!("{what}: {name} {shown}: {said:.500}")));
            longest = longest.max(own.chars().count());
            calls += 1;
        }
        for arguments in [json!([]), json!(5), json!("{}"), json!(true)] {
            let answer = client.request("tools/call", json!({ "name": name, "arguments": arguments }));
            let said = answer["error"]["message"].as_str().expect("a message");
            assert!(
                answer["error"]["code"] == -32602 && said.starts_with("arguments is "),
                "{name}: {answer}"
            );
            calls += 1;
        }
    }
    eprintln!("{calls} wrong calls; the longest answer has {longest} characters");
    assert!(wrong.is_empty(), "{} of them: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    assert!(calls > 1_000, "{calls}");
    // Nothing was started, made or kept, and the server goes on.
    assert_eq!(client.request("resources/list", json!({}))["result"]["resources"], json!([]));
    assert_eq!(client.good("workspace_list", &json!({}))["workspaces"], json!([]));
    assert_eq!(client.good("run_command", &json!({ "argv": ["echo", "on"] }))["stdout"]["text"], "on\n");
}
