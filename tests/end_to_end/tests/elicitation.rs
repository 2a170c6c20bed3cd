//! Questions to a person through the client: clients that answer by themselves, lie, replay, answer for
//! others or send nonsense.

use hotcell_end_to_end::User;
use hotcell_end_to_end::mcp::{Local, SESSIONS, STATELESS, two_callers};
use serde_json::{Value, json};

use super::approvals::{approvals, audit_is_good, id_in, list, log};
use super::tools::configure;

const ON: &str = "approvals = \"elicitation\"\n";

fn call(host: &str) -> Value {
    json!({ "argv": ["true"], "network": [host] })
}

fn able() -> Value {
    json!({ "elicitation": {} })
}

fn yes() -> Value {
    json!({ "action": "accept", "content": { "allow": true } })
}

/// Calls the tool, and gives each question of a session's server this answer; returns the result, and the
/// number of questions.
fn answering(client: &mut Local, arguments: &Value, answer: &Value) -> (Value, usize) {
    let id = client.ask("tools/call", json!({ "name": "run_command", "arguments": arguments }));
    let mut asked = 0;
    loop {
        let message = client.said();
        if message["method"] == "elicitation/create" {
            asked += 1;
            let question = message["params"]["message"].as_str().expect("a question").to_owned();
            assert!(question.contains("mcp:stdio asks to let one run_command reach"), "{question}");
            let mut reply = json!({ "jsonrpc": "2.0", "id": message["id"] });
            let key = if answer["code"].is_i64() { "error" } else { "result" };
            reply[key] = answer.clone();
            client.send(&reply);
        } else if message["id"] == id {
            return (message["result"].clone(), asked);
        }
    }
}

/// First answer of the newest revision: a question and a state.
fn question(client: &mut Local, arguments: &Value) -> Value {
    let mut answer = client.request("tools/call", json!({ "name": "run_command", "arguments": arguments }));
    answer["result"].take()
}

fn again(client: &mut Local, arguments: &Value, state: &Value, response: &Value) -> Value {
    client.request(
        "tools/call",
        json!({
            "name": "run_command", "arguments": arguments, "requestState": state,
            "inputResponses": { "approval": response }
        }),
    )
}

fn state_of(user: &User, id: &str) -> String {
    let row = list(user).into_iter().find(|row| row["id"] == id).expect("it is there");
    row["state"].as_str().expect("a state").to_owned()
}

#[test]
fn automatic_client_answers_are_ignored_when_disabled() {
    let user = User::me();
    for revision in [SESSIONS, STATELESS] {
        let mut client = Local::able(&user, revision, able());
        let (result, asked) = answering(&mut client, &call("a.org:1"), &yes());
        assert_eq!((asked, &result["isError"]), (0, &json!(true)), "{result:#}");
        id_in(result["content"][0]["text"].as_str().unwrap());
        assert_eq!(result["resultType"], if revision == STATELESS { json!("complete") } else { Value::Null });
    }
    // A forged state is refused.
    let mut client = Local::able(&user, STATELESS, able());
    let forged = again(&mut client, &call("a.org:1"), &json!("x.y.z"), &yes());
    assert_eq!(forged["error"]["code"], -32602, "{forged:#}");
    assert!(list(&user).iter().all(|row| row["state"] == "pending"));
    // A project's file cannot switch it on either.
    user.write("work/hotcell.toml", ON);
    user.hotcell(["run", "--workspace", ".", "--", "true"]).end().code(125).says("approvals");
}

#[test]
fn elicited_approval_is_logged_with_channel() {
    for revision in [SESSIONS, STATELESS] {
        let user = User::me();
        configure(&user, ON);
        let mut client = Local::able(&user, revision, able());
        let arguments = call("a.org:1");
        let result = if revision == SESSIONS {
            let (result, asked) = answering(&mut client, &arguments, &yes());
            assert_eq!(asked, 1);
            result
        } else {
            let first = question(&mut client, &arguments);
            assert_eq!(first["resultType"], "input_required", "{first:#}");
            let asks = &first["inputRequests"]["approval"];
            assert_eq!(asks["method"], "elicitation/create");
            let message = asks["params"]["message"].as_str().unwrap();
            assert!(message.contains("reach a.org:1") && message.contains("| argv: [\"true\"]"), "{message}");
            again(&mut client, &arguments, &first["requestState"], &yes())["result"].take()
        };
        assert_eq!(
            (&result["isError"], &result["structuredContent"]["cause"]),
            (&json!(false), &json!("exited"))
        );
        let want = [
            ("approval_ask", "mcp:stdio"),
            ("approval_approve", "elicitation:stdio"),
            ("approval_use", "mcp:stdio"),
        ];
        assert_eq!(log(&user), want.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(list(&user)[0]["decision"]["channel"], "elicitation:stdio");
        audit_is_good(&user);
    }
}

#[test]
fn declined_or_malformed_answers_approve_nothing() {
    let user = User::me();
    configure(&user, ON);
    let mut client = Local::able(&user, SESSIONS, able());
    let mut modern = Local::able(&user, STATELESS, able());
    for (n, (answer, state)) in [
        (json!({ "action": "decline" }), "denied"),
        (json!({ "action": "accept", "content": { "allow": false } }), "denied"),
        (json!({ "action": "cancel" }), "pending"),
        (json!({ "action": "accept" }), "pending"),
        (json!({ "action": "accept", "content": { "allow": "true" } }), "pending"),
        (json!({ "code": -32601, "message": "no such method" }), "pending"),
    ]
    .into_iter()
    .enumerate()
    {
        let (result, asked) = answering(&mut client, &call(&format!("h{n}.org:1")), &answer);
        assert_eq!((asked, &result["isError"]), (1, &json!(true)), "{answer}: {result:#}");
        let id = result["_meta"]["hotcell/approval"]["id"].as_str().unwrap().to_owned();
        assert_eq!(state_of(&user, &id), state, "{answer}");
    }
    for (n, (answer, state)) in [
        (json!({ "action": "decline" }), "denied"),
        (json!({ "action": "perhaps", "content": { "allow": true } }), "pending"),
        (json!({}), "pending"),
        (json!(12), "pending"),
        (json!("accept"), "pending"),
    ]
    .into_iter()
    .enumerate()
    {
        let arguments = call(&format!("m{n}.org:1"));
        let first = question(&mut modern, &arguments);
        let result = again(&mut modern, &arguments, &first["requestState"], &answer);
        assert_eq!(result["result"]["isError"], true, "{answer}: {result:#}");
        let host = format!("m{n}.org:1");
        let row = list(&user).into_iter().find(|row| row.to_string().contains(&host)).expect("it is listed");
        assert_eq!(row["state"], state, "{answer}");
    }
    audit_is_good(&user);
}

#[test]
fn client_without_elicitation_gets_instructions() {
    let user = User::me();
    configure(&user, ON);
    // The client announces nothing, or only capabilities that do not help here.
    for able in [json!({}), json!({ "sampling": {} }), json!({ "elicitation": { "url": {} } })] {
        for revision in [SESSIONS, STATELESS] {
            let mut client = Local::able(&user, revision, able.clone());
            let (result, asked) = answering(&mut client, &call("a.org:1"), &yes());
            assert_eq!((asked, &result["isError"]), (0, &json!(true)), "{result:#}");
            id_in(result["content"][0]["text"].as_str().unwrap());
        }
    }
}

#[test]
fn request_state_is_bound_to_caller_and_call() {
    let user = User::me();
    configure(&user, ON);
    let mut client = Local::able(&user, STATELESS, able());
    let (arguments, other) = (call("a.org:1"), call("b.org:1"));
    let first = question(&mut client, &arguments);
    let state = first["requestState"].clone();
    let text = state.as_str().unwrap();
    // Changed, of another call, of another tool: refused, and nothing is approved.
    let mut changed = text.to_owned();
    changed.replace_range(..1, if text.starts_with('A') { "B" } else { "A" });
    for (arguments, state) in [
        (&arguments, json!(changed)),
        (&arguments, json!("")),
        (&arguments, json!("a.b.c")),
        (&arguments, json!(format!("{text}0"))),
        (&other, state.clone()),
    ] {
        let answer = again(&mut client, arguments, &state, &yes());
        assert_eq!(answer["error"]["code"], -32602, "{answer:#}");
    }
    assert!(list(&user).iter().all(|row| row["state"] == "pending"));
    let done = again(&mut client, &arguments, &state, &yes());
    assert_eq!(done["result"]["isError"], false, "{done:#}");
    // Again: the state is spent, the approval is used, and the call asks anew.
    let replayed = again(&mut client, &arguments, &state, &yes());
    assert_eq!(replayed["result"]["isError"], true, "{replayed:#}");
    let said = replayed["result"]["content"].to_string();
    assert!(said.contains("nothing was approved"), "{said}");
    assert_eq!(list(&user).iter().filter(|row| row["state"] == "approved").count(), 0);
    // After a question was closed, its state answers nothing.
    let closed = question(&mut client, &other);
    again(&mut client, &other, &closed["requestState"], &json!({ "action": "cancel" }));
    let late = again(&mut client, &other, &closed["requestState"], &yes());
    assert_eq!(late["result"]["isError"], true, "{late:#}");
    // Nor after a person has decided.
    let open = question(&mut client, &other);
    let id = list(&user)[0]["id"].as_str().unwrap().to_owned();
    approvals(&user, &["deny", &id]).code(0);
    let late = again(&mut client, &other, &open["requestState"], &yes());
    assert_eq!((&late["result"]["isError"], state_of(&user, &id)), (&json!(true), "denied".to_owned()));
    audit_is_good(&user);
}

#[test]
fn caller_cannot_answer_for_another() {
    let user = User::me();
    configure(&user, ON);
    let (http, [one, two]) = two_callers(&user);
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": able() });
    let params = |more: Value| {
        let mut params = json!({ "name": "run_command", "arguments": call("a.org:1"), "_meta": meta });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let first = http.request(&one, "tools/call", params(json!({})));
    let state = &first["result"]["requestState"];
    assert!(state.is_string(), "{first:#}");
    let answer = json!({ "requestState": state, "inputResponses": { "approval": yes() } });
    let stolen = http.request(&two, "tools/call", params(answer.clone()));
    assert_eq!(stolen["error"]["code"], -32602, "{stolen:#}");
    let done = http.request(&one, "tools/call", params(answer));
    assert_eq!(done["result"]["isError"], false, "{done:#}");
}
