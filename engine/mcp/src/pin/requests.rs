//! Requests of a client for one entry of a list: those for an entry that is held are answered here, and the server does not see them. Pure.

use serde_json::{Value, json};

use super::Kind;

/// Words of which one is in each line that is looked at, or an escape, which may hide one: others pass unread.
const MARKS: [&[u8]; 4] = [b"prompts", b"resources", b"completion", b"\\u"];

/// Entry that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Kind of the entry.
    pub kind: Kind,
    /// Its name or address.
    pub own: String,
}

/// Entries that a line of a client asks for.
#[must_use]
pub fn asked(line: &[u8]) -> Vec<Asked> {
    if !MARKS.iter().any(|mark| line.windows(mark.len()).any(|part| part == *mark)) {
        return Vec::new();
    }
    let message = serde_json::from_slice::<Value>(line).unwrap_or_default();
    let messages = match &message {
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    messages.iter().filter_map(of_one).collect()
}

fn of_one(message: &Value) -> Option<Asked> {
    let (kind, field) = match message.get("method")?.as_str()? {
        "prompts/get" => (Kind::Prompt, "name"),
        "resources/read" | "resources/subscribe" => (Kind::Resource, "uri"),
        "completion/complete" => return of_completion(message.get("params")?.get("ref")?),
        _ => return None,
    };
    let own = message.get("params")?.get(field)?.as_str()?.to_owned();
    Some(Asked { kind, own })
}

/// Prompt or template whose argument a client has completed.
fn of_completion(of: &Value) -> Option<Asked> {
    let (kind, field) = match of.get("type")?.as_str()? {
        "ref/prompt" => (Kind::Prompt, "name"),
        "ref/resource" => (Kind::Template, "uri"),
        _ => return None,
    };
    Some(Asked { kind, own: of.get(field)?.as_str()?.to_owned() })
}

/// Answer to a client that asks for a held entry, alone or among other requests of a batch, which is not passed either; `None` where no request has an id.
#[must_use]
pub fn held_answer(line: &[u8], why: &str) -> Option<Vec<u8>> {
    let message = serde_json::from_slice::<Value>(line).ok()?;
    let of_one = |message: &Value| {
        let id = message.get("id").filter(|id| id.is_string() || id.is_number())?;
        let error = json!({ "code": -32602, "message": format!("hotcell: {why}") });
        Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }))
    };
    let answer = match &message {
        Value::Array(all) => {
            let answers: Vec<Value> = all.iter().filter_map(of_one).collect();
            if answers.is_empty() {
                return None;
            }
            Value::Array(answers)
        }
        one => of_one(one)?,
    };
    Some(format!("{answer}\n").into_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests end by panics")]
mod tests {
    use super::*;

    #[test]
    fn requests_for_one_entry_are_found() {
        let ask = |method: &str, params: Value| {
            json!({ "jsonrpc": "2.0", "id": 4, "method": method, "params": params }).to_string()
        };
        let one = |kind: Kind, own: &str| vec![Asked { kind, own: own.to_owned() }];
        let complete = |of: Value| {
            ask("completion/complete", json!({ "ref": of, "argument": { "name": "x", "value": "" } }))
        };
        for (line, want) in [
            (ask("prompts/get", json!({ "name": "a" })), one(Kind::Prompt, "a")),
            (ask("resources/read", json!({ "uri": "file:///a" })), one(Kind::Resource, "file:///a")),
            (ask("resources/subscribe", json!({ "uri": "x:" })), one(Kind::Resource, "x:")),
            (ask("prompts/get", json!({ "name": "a" })).replace('/', "\\/"), one(Kind::Prompt, "a")),
            (
                ask("prompts/get", json!({ "name": "a" })).replace("prompts", "\\u0070rompts"),
                one(Kind::Prompt, "a"),
            ),
            (complete(json!({ "type": "ref/prompt", "name": "a" })), one(Kind::Prompt, "a")),
            (complete(json!({ "type": "ref/resource", "uri": "x:{a}" })), one(Kind::Template, "x:{a}")),
            (complete(json!({ "type": "ref/other", "name": "a" })), vec![]),
            (complete(json!("ref/prompt")), vec![]),
            (format!("[{}]", ask("prompts/get", json!({ "name": "a" }))), one(Kind::Prompt, "a")),
            (ask("prompts/get", json!({ "name": 1 })), vec![]),
            (ask("prompts/list", json!({})), vec![]),
            (ask("tools/call", json!({ "name": "prompts", "arguments": {} })), vec![]),
            ("prompts".to_owned(), vec![]),
            (String::new(), vec![]),
        ] {
            assert_eq!(asked(line.as_bytes()), want, "{line}");
        }
        let answer = held_answer(ask("prompts/get", json!({ "name": "a" })).as_bytes(), "held").unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["message"]), (&json!(4), &json!("hotcell: held")));
        let batch = format!("[{},{{\"method\":\"x\"}}]", ask("prompts/get", json!({ "name": "a" })));
        let answers: Value = serde_json::from_slice(&held_answer(batch.as_bytes(), "held").unwrap()).unwrap();
        assert_eq!((answers.as_array().unwrap().len(), &answers[0]["id"]), (1, &json!(4)));
        assert_eq!(held_answer(b"{\"method\":\"prompts/get\"}\n", "held"), None);
    }
}
