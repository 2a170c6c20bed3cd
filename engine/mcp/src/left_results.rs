//! Results of runs of a server that has ended, left in the state folder for clients that start a server for
//! each call and ask another server than the one that had the run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_sandbox::Cause;
use hotcell_server::retained::Piece;
use hotcell_server::tasks::Stands;
use hotcell_server::{Caller, Live, Phase, Run, Stream};
use serde_json::{Value, json};

use crate::answer::{Detail, of_run};

/// Maximum number of runs that are left; the newest ones.
const MAX_RUNS: usize = 32;
/// Bytes kept of each end of a stream.
const END_BYTES: usize = 128 << 10;

/// Message about a run that was cut off.
const CUT_OFF: &str = "the server that had this run has ended, and the run with it; start it again. A client that starts a server for \
                       each call needs one that stays for longer runs: a session, or hotcell mcp --http";

fn name(run: &str, stream: Stream) -> String {
    format!("{run}/{}", stream.name())
}

/// Saves the results of a caller's runs. Blocks.
pub(crate) fn leave(live: &Live, caller: &Caller) {
    let runs = live.runs(caller);
    let all: Vec<_> = runs.iter().take(MAX_RUNS).flat_map(|run| rows(live, run)).collect();
    if !all.is_empty()
        && let Err(report) = live.tasks().leave(caller, &all)
    {
        tracing::warn!("what became of runs is not left for later: {report}");
    }
}

fn rows(live: &Live, run: &Run) -> Vec<(String, Stands)> {
    let cut_off = run.state().phase != Phase::Finished
        || run.answer().is_some_and(|answer| answer.outcome().cause == Cause::Cancelled);
    if cut_off {
        return vec![(run.id.clone(), Stands::Failed(CUT_OFF.to_owned()))];
    }
    let mut rows = vec![(run.id.clone(), Stands::Completed(json!(of_run(live, run, Detail::News))))];
    for stream in Stream::ALL {
        let (head, tail) = (run.read(stream, 0, END_BYTES).bytes, run.last(stream, END_BYTES).bytes);
        let bytes = run.state().printed[stream as usize];
        let kept = json!({ "head": STANDARD.encode(head), "tail": STANDARD.encode(tail), "bytes": bytes });
        rows.push((name(&run.id, stream), Stands::Completed(kept)));
    }
    rows
}

/// Saved output of a run from an offset on, and the total size of the output. Blocks.
pub(crate) fn output(
    live: &Live,
    caller: &Caller,
    run: &str,
    stream: Stream,
    offset: u64,
    most: usize,
) -> Option<(Piece, u64)> {
    match live.tasks().get(caller, &name(run, stream)).ok()?.stands {
        Stands::Completed(kept) => piece(&kept, offset, most),
        _ => None,
    }
}

fn piece(kept: &Value, offset: u64, most: usize) -> Option<(Piece, u64)> {
    let decoded = |name: &str| STANDARD.decode(kept[name].as_str()?).ok();
    let (head, tail, bytes) = (decoded("head")?, decoded("tail")?, kept["bytes"].as_u64()?);
    let tail_from = bytes.checked_sub(tail.len() as u64)?;
    let offset = offset.min(bytes);
    let (part, from) = if offset < head.len() as u64 { (&head, 0) } else { (&tail, tail_from) };
    let offset = offset.max(from);
    let at = usize::try_from(offset - from).ok()?;
    let shown = part.get(at..)?;
    let shown = &shown[..shown.len().min(most)];
    let mut next = offset + shown.len() as u64;
    if from == 0 && next == head.len() as u64 && next < bytes {
        next = next.max(tail_from);
    }
    Some((Piece { offset, bytes: shown.to_vec(), next }, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_output_is_read_in_pieces() {
        let kept = |head: &str, tail: &str, bytes: u64| json!({ "head": STANDARD.encode(head), "tail": STANDARD.encode(tail), "bytes": bytes });
        let all = |kept: &Value, most: usize| {
            let (mut read, mut at) = (String::new(), 0);
            loop {
                let (piece, bytes) = piece(kept, at, most).unwrap();
                read.push_str(std::str::from_utf8(&piece.bytes).unwrap());
                if piece.next >= bytes {
                    return read;
                }
                assert!(piece.next > at);
                at = piece.next;
            }
        };
        for most in 1..6 {
            assert_eq!(all(&kept("0123", "0123", 4), most), "0123");
            assert_eq!(all(&kept("0123", "2345", 6), most), "012345");
            assert_eq!(all(&kept("0123", "abcd", 100), most), "0123abcd");
            assert_eq!(all(&kept("", "", 0), most), "");
        }
        let (piece, _) = piece(&kept("0123", "abcd", 100), 50, 9).unwrap();
        assert_eq!((piece.offset, piece.bytes.as_slice()), (96, b"abcd".as_slice()));
    }
}
