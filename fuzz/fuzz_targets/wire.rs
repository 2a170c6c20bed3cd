//! Messages between the supervisor, the launcher and init.
#![no_main]

use hotcell_launcher::wire::{Job, Request, Tell, template_ops};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = Request::decode(bytes);
    let _ = Job::decode(bytes);
    let _ = template_ops(bytes).map(|ops| ops.count());
    let _ = Tell::decode(bytes).map(|told| told.steps().count());
});
