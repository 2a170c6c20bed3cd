//! Messages of a compromised tool host to its parent: frames, in pieces whose size the first byte sets, and
//! all their contents.
#![no_main]

use hotcell_tools::host::checked::{check, check_description};
use hotcell_tools::protocol::{FromHost, Incoming, ToHost};
use hotcell_tools::{Capability, Limits};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [cut, bytes @ ..] = bytes else { return };
    let limits = Limits::default();
    let mut incoming = Incoming::new(1 << 20);
    for piece in bytes.chunks(usize::from(*cut).max(1)) {
        incoming.room().extend_from_slice(piece);
        loop {
            match incoming.frame() {
                Ok(Some(frame)) => match FromHost::decode(frame) {
                    Ok(message) => taken(message, &limits),
                    // The parent ends the process at the first such error.
                    Err(_) => return,
                },
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});

/// Checks that an accepted message can be encoded and read again: it is passed on unchanged.
fn taken(message: FromHost, limits: &Limits) {
    // The frame is also read as one of the other direction.
    let frame = message.encode().expect("what was read can be said");
    let mut incoming = Incoming::new(usize::MAX >> 8);
    incoming.room().extend_from_slice(&frame);
    let frame = incoming.frame().expect("a frame").expect("all of it");
    let _ = ToHost::decode(hotcell_tools::protocol::Frame {
        kind: frame.kind % 64,
        number: frame.number,
        body: frame.body.clone(),
    });
    let again = FromHost::decode(frame).expect("what was said can be read");
    // A fraction in a schema may lose its last digit on the way.
    if !matches!(message, FromHost::Compiled { .. }) {
        assert_eq!(format!("{message:?}"), format!("{again:?}"));
    }
    match message {
        FromHost::Done { result, .. } => match check(*result, limits) {
            Ok(Ok(answer)) => {
                assert!(answer.value.get().len() as u64 <= limits.result.0);
                assert!(answer.value.get().starts_with('{') && !answer.value.get().contains('\n'));
                assert!(answer.denied.iter().all(|denied| denied.parse::<Capability>().is_ok()));
            }
            Ok(Err(error)) => {
                let text = error.to_string();
                assert!(text.chars().count() < 10_000 && !text.contains('\u{1b}'), "{text:?}");
            }
            Err(_) => {}
        },
        FromHost::Compiled { description, .. } if check_description(&description).is_ok() => {
            assert!(description.exports.iter().all(|export| export.input_schema.is_object()));
        }
        _ => {}
    }
}
