//! Misbehaviour of callers over HTTP, and the required results: calls that are cancelled, connections that
//! break off, answers that are not read, bytes that are not a request.

use std::io::{BufReader, Write};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::calls::{Asked, Judged, ended};
use crate::client::Calls;
use crate::dice::Dice;
use crate::rates::Times;
use crate::web::{Pace, Trouble, Web, answered};

/// Time limit for the stream of a cancelled call: the run of a caller that is gone ends in the meantime.
const STREAM_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the answer to bytes that are not a request; the server waits ten seconds for headers.
const NO_REQUEST_TIMEOUT: Duration = Duration::from_secs(40);
/// Maximum time after the beginning at which a call is cancelled or left, in milliseconds.
const MAX_CANCEL_DELAY_MS: u64 = 600;

/// One kind of misbehaviour.
pub struct Abuse {
    pub name: &'static str,
    pub weight: u64,
    pub does: fn(&mut Asked<'_>, &Web) -> Result<(), Judged>,
}

/// All kinds of misbehaviour.
pub const ALL: [Abuse; 7] = [
    Abuse { name: "cancelled (notification)", weight: 20, does: by_notification },
    Abuse { name: "cancelled (run_cancel)", weight: 20, does: by_tool },
    Abuse { name: "hung up", weight: 25, does: hung_up },
    Abuse { name: "broke off", weight: 10, does: broke_off },
    Abuse { name: "read slowly", weight: 10, does: slowly },
    Abuse { name: "no request", weight: 10, does: garbage },
    Abuse { name: "left its session", weight: 5, does: left },
];

/// A process tree that would not end for ten minutes.
fn lasting(mark: &str) -> Value {
    let script = "sleep 600 & (trap '' TERM; sleep 600) & setsid sleep 600 & wait";
    json!({ "argv": ["sh", "-c", script, mark], "wait_ms": 60_000 })
}

fn trouble(what: &str, why: &Trouble) -> Judged {
    Judged::Wrong(format!("{what}: {why:?}"))
}

fn by_notification(asked: &mut Asked<'_>, web: &Web) -> Result<(), Judged> {
    web.begin(STREAM_TIMEOUT).map_err(|why| trouble("a session", &why))?;
    let id = web.number();
    let text = web.text(id, "run_command", &lasting(&asked.mark));
    let after = asked.dice.time(MAX_CANCEL_DELAY_MS);
    let word =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    if web.is_stateless() {
        // Hanging up is the only way to cancel.
        return hung_up(asked, web);
    }
    let (sent, came) = thread::scope(|scope| {
        let call = scope.spawn(|| web.exchange(&text, STREAM_TIMEOUT));
        thread::sleep(after);
        (web.tell(&word), call.join())
    });
    sent.map_err(|why| trouble("a cancellation", &why))?;
    match came {
        // No answer, or that the call was cancelled, or that it failed before.
        Ok(Ok(_)) => Ok(()),
        Ok(Err(why)) => Err(trouble("a call that was cancelled", &why)),
        Err(_) => Err(Judged::Wrong("a caller failed".to_owned())),
    }
}

fn by_tool(asked: &mut Asked<'_>, _: &Web) -> Result<(), Judged> {
    let mut call = lasting(&asked.mark);
    call["wait_ms"] = json!(0);
    let begun = asked.ask("run_command", &call)?;
    thread::sleep(asked.dice.time(MAX_CANCEL_DELAY_MS));
    let answer = asked.ask("run_cancel", &json!({ "run_id": begun["run_id"] }))?;
    if answer["status"] != "finished" {
        return Err(Judged::Wrong(format!("run_cancel: {answer}")));
    }
    ended(&answer, &["cancelled"])
}

/// Sends a complete call and hangs up before its answer.
fn hung_up(asked: &mut Asked<'_>, web: &Web) -> Result<(), Judged> {
    web.begin(STREAM_TIMEOUT).map_err(|why| trouble("a session", &why))?;
    let text = web.text(web.number(), "run_command", &lasting(&asked.mark));
    let mut stream = web.connect().map_err(|e| trouble("a connection", &e.into()))?;
    stream.write_all(text.as_bytes()).map_err(|e| trouble("a request", &e.into()))?;
    thread::sleep(asked.dice.time(MAX_CANCEL_DELAY_MS));
    if asked.dice.chance(30) {
        // As a client that sends no more, and would still read for a while.
        let _ = stream.shutdown(Shutdown::Write);
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Sends the beginning of a call.
fn broke_off(asked: &mut Asked<'_>, web: &Web) -> Result<(), Judged> {
    let text = web.text(web.number(), "run_command", &lasting(&asked.mark));
    let mut stream = web.connect().map_err(|e| trouble("a connection", &e.into()))?;
    let cut = usize::try_from(asked.dice.below(text.len() as u64)).unwrap_or(0);
    let _ = stream.write_all(&text.as_bytes()[..cut]);
    thread::sleep(asked.dice.time(MAX_CANCEL_DELAY_MS));
    Ok(())
}

/// Reads a long answer slowly.
fn slowly(asked: &mut Asked<'_>, web: &Web) -> Result<(), Judged> {
    let slow = web.slowly(Pace::Slow(50 + u32::try_from(asked.dice.below(200)).unwrap_or(0)));
    let script = "i=0; while [ $i -lt 3000 ]; do echo $0; i=$((i+1)); done";
    let mut own =
        Asked { client: &slow, dice: asked.dice.clone(), mark: asked.mark.clone(), answered: Vec::new() };
    let answer = own.run("run_command", &json!({ "argv": ["sh", "-c", script, asked.mark] }));
    asked.answered.append(&mut own.answered);
    let _ = slow.leave(true);
    ended(&answer?, &["exited"])
}

/// Bytes that are not a request, or a request whose body is not valid.
fn garbage(asked: &mut Asked<'_>, web: &Web) -> Result<(), Judged> {
    let dice = &mut asked.dice;
    let mut bytes: Vec<u8> = (0..dice.below(400)).map(|_| dice.roll().to_le_bytes()[0]).collect();
    if dice.chance(60) {
        // The headers of a real call, before a random body.
        let text = web.text(1, "run_command", &json!({}));
        let (head, _) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let head = head.replace("Content-Length", "X-Was");
        bytes.splice(0..0, format!("{head}\r\nContent-Length: {}\r\n\r\n", bytes.len()).into_bytes());
    }
    let stream = web.connect().map_err(|e| trouble("a connection", &e.into()))?;
    let _ = (&stream).write_all(&bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(NO_REQUEST_TIMEOUT));
    match answered(&mut BufReader::new(stream), Pace::Quick).map_err(Trouble::from) {
        Ok(answer) if answer.status >= 400 => Ok(()),
        Ok(answer) => Err(Judged::Wrong(format!("what is no request was answered: {answer:?}"))),
        // The server may close the connection without an answer.
        Err(Trouble::Lost(_)) => Ok(()),
        Err(why) => Err(trouble("what is no request", &why)),
    }
}

/// Ends its session, or sometimes abandons it.
fn left(asked: &mut Asked<'_>, web: &Web) -> Result<(), Judged> {
    let properly = asked.dice.chance(80);
    web.leave(properly).map_err(|why| trouble("the end of a session", &why))
}

/// Measures the time from `run_cancel` until the last process of a run's tree is gone, repeatedly for
/// `length`.
pub fn cancelling(web: &Web, mark: &str, dice: &mut Dice, length: Duration) -> Result<Times, String> {
    let (mut times, began) = (Times::default(), Instant::now());
    while began.elapsed() < length {
        let mark = format!("{mark}-{:x}", dice.roll());
        let mut call = lasting(&mark);
        call["wait_ms"] = json!(0);
        // Names of its processes, by which they are found from here.
        call["argv"][2] = json!(format!(
            "(exec -a {mark} sleep 600) & (trap '' TERM; exec -a {mark} sleep 600) & \
             setsid bash -c 'exec -a {mark} sleep 600' & wait"
        ));
        call["argv"][0] = json!("bash");
        let begun = match web.call("run_command", &call, STREAM_TIMEOUT) {
            crate::client::Reply::Good(begun) => begun,
            other => return Err(format!("a run that is to be cancelled: {other:?}")),
        };
        let tree = tree(&mark)?;
        let sent = Instant::now();
        // The last process may be gone before the answer arrives, but must not outlive it: both are awaited.
        let gone = thread::scope(|scope| {
            let gone = scope.spawn(|| {
                while tree.iter().any(|(pid, start)| lives(*pid, *start)) {
                    if sent.elapsed() > STREAM_TIMEOUT {
                        return None;
                    }
                    thread::sleep(Duration::from_micros(500));
                }
                Some(sent.elapsed())
            });
            let answer = web.call("run_cancel", &json!({ "run_id": begun["run_id"] }), STREAM_TIMEOUT);
            match (answer, gone.join()) {
                (crate::client::Reply::Good(answer), Ok(Some(took))) if answer["cause"] == "cancelled" => {
                    Ok(took)
                }
                (answer, gone) => Err(format!("a cancelled run: {answer:?}, its processes: {gone:?}")),
            }
        })?;
        times.add(gone);
    }
    Ok(times)
}

fn lives(pid: i32, start: u64) -> bool {
    crate::processes::read(pid).is_some_and(|now| now.start == start && now.state != 'Z')
}

/// Processes with this name, once all three of them are there, and the one that started them.
fn tree(mark: &str) -> Result<Vec<(i32, u64)>, String> {
    let began = Instant::now();
    loop {
        let named = |process: &crate::processes::Process| {
            let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            line.split(|b| *b == 0).next() == Some(mark.as_bytes())
        };
        let found: Vec<_> = crate::processes::all().into_iter().filter(named).collect();
        if found.len() == 3 {
            return Ok(found.iter().map(|process| (process.pid, process.start)).collect());
        }
        if began.elapsed() > STREAM_TIMEOUT {
            return Err(format!("a run that is to be cancelled has {found:?}"));
        }
        thread::sleep(Duration::from_millis(1));
    }
}
