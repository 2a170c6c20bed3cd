//! Programs in place of the tool host, as if a component had taken it over. They run in the sandbox, as it
//! does.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hotcell_tools::protocol::{FromHost, Incoming, ToHost};
use hotcell_tools::{Answer, Ask, Description, LoadError};
use serde_json::value::RawValue;

/// The tool host's end of the socket.
struct Fake {
    socket: UnixStream,
    incoming: Incoming,
}

impl Fake {
    fn new() -> Self {
        let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
        Self { socket, incoming: Incoming::new(64 << 20) }
    }

    fn say(&mut self, message: &FromHost) {
        self.write(&message.encode().unwrap());
    }

    fn write(&mut self, bytes: &[u8]) {
        // The parent may have closed its end.
        if self.socket.write_all(bytes).is_err() {
            std::process::exit(0);
        }
    }

    fn hear(&mut self) -> ToHost {
        loop {
            if let Some(frame) = self.incoming.frame().unwrap() {
                return ToHost::decode(frame).unwrap();
            }
            let mut chunk = [0; 16 << 10];
            match self.socket.read(&mut chunk) {
                Ok(0) | Err(_) => std::process::exit(0),
                Ok(got) => self.incoming.room().extend_from_slice(&chunk[..got]),
            }
        }
    }

    /// Next message, if it arrives within this time.
    fn hear_within(&mut self, time: Duration) -> Option<ToHost> {
        self.socket.set_read_timeout(Some(time)).unwrap();
        let mut chunk = [0; 16 << 10];
        let heard = loop {
            if let Some(frame) = self.incoming.frame().unwrap() {
                break Some(ToHost::decode(frame).unwrap());
            }
            match self.socket.read(&mut chunk) {
                Ok(0) => std::process::exit(0),
                Ok(got) => self.incoming.room().extend_from_slice(&chunk[..got]),
                Err(_) => break None,
            }
        };
        self.socket.set_read_timeout(None).unwrap();
        heard
    }

    fn answer(&mut self, call: u64, value: &str) {
        self.say(&done(call, value, String::new()));
    }

    fn print(&mut self, call: u64, stdout: String) {
        self.say(&done(call, "{}", stdout));
    }
}

fn done(call: u64, value: &str, stdout: String) -> FromHost {
    let value = RawValue::from_string(value.to_owned()).unwrap();
    let (stderr, denied) = (String::new(), Vec::new());
    let answer = Answer { is_error: false, value, stdout, stderr, denied, wall_us: 1, peak_memory: 0 };
    FromHost::Done { call, result: Box::new(Ok(answer)) }
}

fn log(ask: u64, call: u64, message: &str) -> FromHost {
    let what = Ask::Log { level: "info".to_owned(), message: message.to_owned() };
    FromHost::Asked { ask, call, what }
}

/// Runs the behaviour of this name, forever.
pub fn run(what: &str) -> ! {
    if what == "never-ready" {
        std::process::exit(3);
    }
    let mut fake = Fake::new();
    if what == "never-says" {
        sleep();
    }
    if what == "no-protocol" {
        fake.write(b"{\"jsonrpc\":\"2.0\"}\n");
        sleep();
    }
    fake.say(&FromHost::Ready(Ok(())));
    loop {
        match fake.hear() {
            ToHost::Compile { .. } => compile(&mut fake, what),
            ToHost::Load { plugin, .. } if what == "loads-another" => {
                fake.say(&FromHost::Loaded { plugin: plugin + 1 });
            }
            ToHost::Load { .. } if what == "never-loads" => {}
            ToHost::Load { plugin, .. } if what == "stale" => {
                fake.say(&FromHost::NotLoaded { plugin, error: LoadError::Stale });
            }
            ToHost::Load { plugin, .. } => fake.say(&FromHost::Loaded { plugin }),
            ToHost::Call { call, .. } if what == "together" => together(&mut fake, call),
            ToHost::Call { call, arguments, .. } => called(&mut fake, what, call, &arguments),
            ToHost::Cancel { call } if what == "cancels" => fake.answer(call, "{}"),
            ToHost::Replied { ask, .. } if what == "asks-forever" => {
                fake.say(&log(ask + 1, ask >> 32, "again"));
            }
            ToHost::Replied { ask, reply } if what == "asks-for-much" => {
                let reply = serde_json::to_string(&reply).unwrap();
                fake.answer(
                    ask,
                    &serde_json::json!({ "bytes": reply.len(), "reply": reply.chars().take(200).collect::<String>() }).to_string(),
                );
            }
            ToHost::Cancel { .. } | ToHost::Replied { .. } => {}
        }
    }
}

fn compile(fake: &mut Fake, what: &str) {
    match what {
        "compiles-forever" => sleep(),
        "compiles-everything" => loop {
            // More memory than there is.
            std::mem::forget(std::hint::black_box(vec![1u8; 16 << 20]));
        },
        "compiles-oversized" => fake.write(&u32::MAX.to_le_bytes()),
        "compiles-nonsense" => fake.say(&FromHost::Loaded { plugin: 0 }),
        _ => {
            let description =
                serde_json::json!({ "exports": [], "imports": [], "at_most": [], "manifest": null });
            let description: Box<Description> = serde_json::from_value(description).unwrap();
            fake.say(&FromHost::Compiled { description, code: b"code".to_vec() });
        }
    }
}

fn called(fake: &mut Fake, what: &str, call: u64, arguments: &str) {
    match what {
        "answers-another" => fake.answer(call + 1, "{}"),
        "answers-twice" => {
            fake.answer(call, "{}");
            fake.answer(call, "{}");
        }
        "answers-lines" => {
            let mut bytes = done(call, "{}", String::new()).encode().unwrap();
            // The length stays right, so that only the value is wrong.
            bytes.truncate(bytes.len() - 2);
            bytes.extend(b"{\n");
            fake.write(&bytes);
        }
        "answers-long" => fake.answer(call, &format!(r#"{{"a":"{}"}}"#, "x".repeat(5 << 20))),
        "answers-deep" => fake.answer(call, &format!(r#"{{"a":{}{}}}"#, "[".repeat(64), "]".repeat(64))),
        "prints-much" => fake.print(call, "x".repeat(4 << 20)),
        "oversized" => fake.write(&u32::MAX.to_le_bytes()),
        "too-short" => fake.write(&[3, 0, 0, 0, 1, 2, 3]),
        "unknown-kind" => fake.write(&[9, 0, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0, 0]),
        "ready-again" => fake.say(&FromHost::Ready(Ok(()))),
        "asks-for-another" => fake.say(&log(1, call + 1, "")),
        "asks-twice" => {
            fake.say(&log(1, call, ""));
            fake.say(&log(1, call, ""));
        }
        "asks-too-much" => (0..100).for_each(|ask| fake.say(&log(ask, call, ""))),
        "asks-unread" => {
            (1..=100).for_each(|ask| {
                let key = "k".to_owned();
                fake.say(&FromHost::Asked { ask, call, what: Ask::Config { key } });
                // Lets a reply arrive before the next question.
                std::thread::sleep(Duration::from_millis(5));
            });
            sleep();
        }
        // The question has the number of the call, which is answered with the reply.
        "asks-for-much" => {
            fake.say(&FromHost::Asked { ask: call, call, what: Ask::Config { key: "k".to_owned() } });
        }
        "withdraws-unasked" => fake.say(&FromHost::Withdrawn { ask: 1 }),
        "withdraws-twice" => {
            fake.say(&log(1, call, ""));
            fake.say(&FromHost::Withdrawn { ask: 1 });
            fake.say(&FromHost::Withdrawn { ask: 1 });
        }
        "asks-and-withdraws" => {
            fake.say(&log(1, call, "never mind"));
            fake.say(&FromHost::Withdrawn { ask: 1 });
            fake.answer(call, "{}");
        }
        // The number of the call is part of the question's.
        "asks-forever" => fake.say(&log(call << 32, call, "")),
        "floods" => loop {
            fake.write(&[0xff; 4096]);
        },
        "dies" if arguments.contains("die") => std::process::abort(),
        "dies" if arguments.contains("wait") => {}
        "silent" | "cancels" => {}
        "probe" => fake.answer(call, &probe(arguments).to_string()),
        _ => fake.answer(call, "{}"),
    }
}

/// Waits for all calls that arrive at the same time, and answers each with their number.
fn together(fake: &mut Fake, first: u64) {
    let mut calls = vec![first];
    while let Some(heard) = fake.hear_within(Duration::from_millis(700)) {
        match heard {
            ToHost::Call { call, .. } => calls.push(call),
            other => panic!("{other:?}"),
        }
    }
    let value = serde_json::json!({ "together": calls.len() }).to_string();
    calls.iter().for_each(|call| fake.answer(*call, &value));
}

/// Surroundings of a program in the sandbox: its environment, these paths, sockets.
fn probe(arguments: &str) -> serde_json::Value {
    let paths: std::collections::BTreeMap<String, Vec<String>> = serde_json::from_str(arguments).unwrap();
    let look = |path: &String| {
        let path = Path::new(path);
        let seen = std::fs::read_dir(path).is_ok();
        let written = std::fs::write(path.join("written"), b"x").is_ok();
        (seen, written)
    };
    let looked: Vec<(bool, bool)> = paths["paths"].iter().map(look).collect();
    let own = std::env::current_exe().unwrap();
    serde_json::json!({
        "variables": std::env::vars().map(|(name, _)| name).collect::<std::collections::BTreeSet<_>>(),
        "looked": looked,
        "tcp": std::net::TcpListener::bind("127.0.0.1:0").is_ok(),
        "udp": std::net::UdpSocket::bind("127.0.0.1:0").is_ok(),
        "connected": std::net::TcpStream::connect("127.0.0.1:1").err().map(|e| e.kind().to_string()),
        "own_program_written": std::fs::OpenOptions::new().append(true).open(own).is_ok(),
        "etc_shadow": Path::new("/etc/shadow").exists(),
        "root_home": std::fs::read_dir("/root").is_ok_and(|mut entries| entries.next().is_some()),
    })
}

fn sleep() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
