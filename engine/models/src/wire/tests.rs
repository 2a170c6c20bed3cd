//! Properties of the formats, and replies as the providers document them.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::message::{Arguments, Message, Tool};

const ALL: [Wire; 4] = [
    Wire::OpenAi { limit: "max_tokens" },
    Wire::OpenAi { limit: "max_completion_tokens" },
    Wire::Anthropic,
    Wire::Gemini,
];

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z]{1,6}", inner), 0..4)
                .prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Arguments> {
    let object = prop::collection::vec(("[a-z]{1,6}", json_value()), 0..4)
        .prop_map(|all| Arguments::Json(all.into_iter().collect::<Map<_, _>>()));
    let text = any::<String>().prop_map(|text| Arguments::parse(&text));
    prop_oneof![3 => object, 1 => text]
}

fn call(signed: bool) -> impl Strategy<Value = ToolCall> {
    let signature = prop::option::of("[A-Za-z0-9+/]{1,12}").prop_map(move |s| s.filter(|_| signed));
    ("[a-z_]{1,8}", arguments(), signature).prop_map(|(name, arguments, signature)| ToolCall {
        id: String::new(),
        name,
        arguments,
        signature,
    })
}

/// Conversations that [`Request::check`] accepts.
fn request(signed: bool) -> impl Strategy<Value = Request> {
    let said = "\\PC*[a-z]\\PC*";
    let turn = prop_oneof![
        said.prop_map(|text| vec![Message::user(text)]),
        said.prop_map(|text| vec![Message::assistant(text)]),
        (
            prop_oneof![Just(String::new()), said.prop_map(|t| t)],
            prop::collection::vec((call(signed), any::<String>()), 1..4)
        )
            .prop_map(|(text, calls)| {
                let results: Vec<_> =
                    calls.iter().map(|(call, text)| Message::result(call, text.clone())).collect();
                let calls = calls.into_iter().map(|(call, _)| call).collect();
                std::iter::once(Message::Assistant { text, calls }).chain(results).collect()
            }),
    ];
    let tools = prop::collection::btree_map("[a-z_]{1,8}", (any::<String>(), json_value()), 0..3);
    let ids = prop::collection::vec("\\PC{0,6}", 64);
    let numbers = (1..100_000_u32, prop::option::of(0..200_u32), prop::option::of(any::<i64>()));
    (prop::option::of(said), prop::collection::vec(turn, 0..8), tools, ids, numbers).prop_map(
        |(system, turns, tools, ids, (max_output_tokens, temperature, seed))| {
            let mut messages = turns.concat();
            messages.push(Message::user("go on"));
            number(&mut messages, &ids);
            let tools = tools.into_iter().map(|(name, (description, schema))| Tool {
                name,
                description,
                parameters: json!({"type": "object", "x": schema}),
            });
            Request {
                system,
                messages,
                tools: tools.collect(),
                max_output_tokens,
                temperature: temperature.map(|n| f64::from(n) / 100.0),
                seed,
            }
        },
    )
}

/// Gives each call an id that occurs once, and its result too.
fn number(messages: &mut [Message], ids: &[String]) {
    let mut open = std::collections::VecDeque::new();
    let mut next = 0;
    for message in messages {
        match message {
            Message::Assistant { calls, .. } => {
                for call in calls {
                    call.id = format!("{}{next}", ids[next % ids.len()]);
                    open.push_back(call.id.clone());
                    next += 1;
                }
            }
            Message::Tool { id, .. } => *id = open.pop_front().unwrap(),
            Message::User { .. } => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn conversations_survive_each_format(request in request(false)) {
        prop_assert_eq!(request.check(), Ok(()));
        for wire in ALL {
            let body = wire.encode("m", &request);
            let text = body.to_string();
            let read = wire.decode(&serde_json::from_str(&text).unwrap()).unwrap();
            let seed = request.seed.filter(|_| wire != Wire::Anthropic);
            prop_assert_eq!(&read, &Request { seed, ..request.clone() }, "{:?} {}", wire, text);
        }
    }

    #[test]
    fn signatures_survive_gemini(request in request(true)) {
        prop_assert_eq!(&Wire::Gemini.decode(&Wire::Gemini.encode("m", &request)).unwrap(), &request);
    }

    #[test]
    fn turns_alternate_where_providers_require_it(request in request(false)) {
        for (wire, key) in [(Wire::Anthropic, "messages"), (Wire::Gemini, "contents")] {
            let body = wire.encode("m", &request);
            let roles: Vec<_> = body[key].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
            prop_assert!(roles.windows(2).all(|two| two[0] != "user" || two[1] != "user"), "{:?}", roles);
        }
    }

    #[test]
    fn replies_of_any_json_do_not_panic(body in json_value(), choices in json_value()) {
        for wire in ALL {
            let _ = wire.reply(&body);
            let _ = wire.decode(&body);
            let _ = wire.reply(&json!({"choices": [choices], "content": [choices], "candidates": [choices]}));
            let _ = wire.decode(&json!({"messages": [choices], "contents": [choices], "max_tokens": 1,
                "max_completion_tokens": 1, "generationConfig": {"maxOutputTokens": 1}}));
        }
    }
}

#[test]
fn openai_replies_are_read() {
    let wire = ALL[0];
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-5-2025-08-07",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}},
                           {"id": "call_2", "type": "function", "function": {"name": "g", "arguments": "{oops"}}]}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107,
            "prompt_tokens_details": {"cached_tokens": 64}}
    });
    let reply = wire.reply(&body).unwrap();
    assert_eq!((reply.stop, reply.text.as_str()), (Stop::ToolCalls, ""));
    assert_eq!(reply.tokens, Some(Tokens { fresh: 36, cached: 64, output: 7 }));
    assert_eq!(reply.calls[0].arguments, Arguments::parse("{\"a\":1}"));
    assert_eq!(reply.calls[1].arguments, Arguments::Malformed("{oops".to_owned()));
    let simple = |message: Value, finish: &str, usage: Value| {
        let body = json!({"choices": [{"message": message, "finish_reason": finish}], "usage": usage});
        wire.reply(&body).unwrap()
    };
    let deepseek = json!({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4, "completion_tokens": 1});
    let reply = simple(json!({"content": "hi", "reasoning_content": "…"}), "stop", deepseek);
    assert_eq!((reply.text.as_str(), reply.stop), ("hi", Stop::End));
    assert_eq!(reply.tokens, Some(Tokens { fresh: 6, cached: 4, output: 1 }));
    let reply = simple(json!({"content": "a"}), "length", json!({"prompt_tokens": 1, "cost": 0.000_25}));
    assert_eq!((reply.stop, reply.cost), (Stop::Length, Some(Money(250_000_000))));
    let reply = simple(json!({"content": null, "refusal": "no"}), "stop", Value::Null);
    assert_eq!((reply.text.as_str(), reply.stop, reply.tokens), ("no", Stop::Refused, None));
    // A server that counts more cached tokens than tokens does not make the sum larger.
    let strange = json!({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 9}});
    assert_eq!(
        simple(json!({"content": "a"}), "stop", strange).tokens,
        Some(Tokens { fresh: 0, cached: 3, output: 0 })
    );
}

#[test]
fn anthropic_replies_are_read() {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "stop_reason": "tool_use",
        "content": [{"type": "thinking", "thinking": "…", "signature": "x"}, {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}],
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 3}
    });
    let reply = Wire::Anthropic.reply(&body).unwrap();
    assert_eq!((reply.stop, reply.text.as_str(), reply.calls.len()), (Stop::ToolCalls, "Let me see.", 1));
    assert_eq!(reply.tokens, Some(Tokens { fresh: 15, cached: 100, output: 3 }));
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert_eq!(Wire::Anthropic.reply(&error), Err(WireError::Error("Overloaded".to_owned())));
}

#[test]
fn gemini_replies_are_read() {
    let body = json!({
        "candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
            {"text": "thinking", "thought": true}, {"text": "Hi."},
            {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}]}}],
        "usageMetadata": {"promptTokenCount": 20, "cachedContentTokenCount": 5, "candidatesTokenCount": 3,
            "thoughtsTokenCount": 4},
        "modelVersion": "gemini-3.8-flash"
    });
    let reply = Wire::Gemini.reply(&body).unwrap();
    assert_eq!((reply.text.as_str(), reply.stop), ("Hi.", Stop::ToolCalls));
    assert_eq!(reply.calls[0].signature.as_deref(), Some("c2ln"));
    assert_eq!(reply.tokens, Some(Tokens { fresh: 15, cached: 5, output: 7 }));
    let blocked = Wire::Gemini.reply(&json!({"promptFeedback": {"blockReason": "SAFETY"}})).unwrap();
    assert_eq!(blocked.stop, Stop::Refused);
    let cut = json!({"candidates": [{"finishReason": "MAX_TOKENS", "content": {"role": "model"}}]});
    assert_eq!(Wire::Gemini.reply(&cut).unwrap().stop, Stop::Length);
}

#[test]
fn content_that_is_not_text_is_refused_by_name() {
    let image = json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
        "max_tokens": 1});
    assert_eq!(ALL[0].decode(&image), Err(WireError::Content("image_url".to_owned())));
    let image = json!({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}], "max_tokens": 1});
    assert_eq!(Wire::Anthropic.decode(&image), Err(WireError::Content("image".to_owned())));
    let image = json!({"contents": [{"role": "user", "parts": [{"inlineData": {}}]}],
        "generationConfig": {"maxOutputTokens": 1}});
    assert_eq!(Wire::Gemini.decode(&image), Err(WireError::Content("inlineData".to_owned())));
    let error = json!({"error": {"message": "no credit", "code": 402}});
    assert_eq!(ALL[0].reply(&error), Err(WireError::Error("no credit".to_owned())));
}
