//! Arguments of a model to values of any types and back: two bytes choose the types, two others with which the values do not fit, the
//! rest is JSON.
#![no_main]

use hotcell_fuzz::types::{Judge, of};
use hotcell_tools::mapping::{Blobs, lift, lower};
use hotcell_tools::{CallError, Limits};
use wasmtime::component::Val;

/// There are no blobs in these types.
struct Without;

impl Blobs for Without {
    fn give(&mut self, _: Vec<u8>) -> Result<Val, String> {
        Err("there are none".to_owned())
    }
    fn take(&mut self, _: Val) -> Result<Vec<u8>, String> {
        Err("there are none".to_owned())
    }
}

fn accepts(judge: &Judge, text: &str) {
    let value = serde_json::from_str(text).expect("it is JSON");
    if let Err(why) = judge.accepts(&value) {
        panic!("{text}: {why}");
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [a, b, c, d, rest @ ..] = bytes else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let (types, others) = (of(u16::from_le_bytes([*a, *b])), of(u16::from_le_bytes([*c, *d])));
    let limits = Limits::default();
    for arguments in [text.to_owned(), format!("{{\"p\":{text}}}")] {
        let values = match lower(&types.echo, &arguments, &limits, &mut Without) {
            Ok(values) => values,
            Err(CallError::Arguments { at, message }) => {
                assert!((at.is_empty() || at.starts_with('/')) && !message.is_empty(), "{at:?} {message:?}");
                continue;
            }
            Err(CallError::Limit { .. }) => continue,
            Err(other) => panic!("{other}"),
        };
        let [value] = &values[..] else { panic!("{values:?}") };
        match lift(&types.echo, &[Val::Tuple(values.clone())], &limits, &mut Without) {
            Ok(answer) => {
                let text = answer.json.as_str();
                accepts(&types.output, text);
                // Out and in again it is the same value.
                let again = text.replacen("{\"result\":[", "{\"p\":", 1);
                let again = format!("{}}}", &again[..again.len() - 2]);
                // More is taken than is published, such as a number where a string is due; what comes out is not.
                accepts(&types.input, &again);
                assert_eq!(lower(&types.echo, &again, &limits, &mut Without), Ok(values.clone()), "{text}");
            }
            Err(CallError::Limit { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        // Of other types it is an answer only where it is of them as well.
        if let Ok(answer) = lift(&others.plain, std::slice::from_ref(value), &limits, &mut Without)
            && !answer.is_error
        {
            accepts(&others.alone, &answer.json);
        }
    }
});
