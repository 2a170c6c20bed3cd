//! `--load MINUTES`: many callers over HTTP at one server. First in peace, where nothing may fail and no
//! caller waits much longer than the others; then with cancelled calls, connections that break off, slow
//! readers, and parts of the server killed.
//!
//! Every answered run is in the history once and did its work once; an unanswered one is in the history at
//! most once. Afterwards nothing is left, and the server uses as much as before.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use serde_json::json;

use crate::Soak;
use crate::abuse;
use crate::calls::{self, Answered, Asked, Judged, exited};
use crate::chaos::{REST_PERIOD, add_tool};
use crate::client::{Calls, Reply};
use crate::dice::Dice;
use crate::history::Rows;
use crate::kinds::Place;
use crate::ledger::Ledger;
use crate::processes::{Children, all};
use crate::rates::Times;
use crate::seen::Seen;
use crate::service::{Use, slope, uses};
use crate::victims::{PARTS, Part, of};
use crate::web::{Server, Web};

/// Number of callers per token.
const CALLERS_PER_TOKEN: usize = 25;
/// Simultaneous calls of the noisy caller.
const NOISY_CALLS: usize = 64;
/// Maximum ratio in peace of the 99th percentile of call times to the median.
const MAX_SPREAD: u32 = 10;
/// Maximum time from a cancellation to the end of the last process, at the 99th percentile.
const MAX_CANCEL_TIME: Duration = Duration::from_millis(200);
/// Minimum number of times for judging a 99th percentile.
const MIN_PERCENTILE_TIMES: usize = 100;
/// Maximum time between two blows, in milliseconds.
const MAX_BLOW_INTERVAL_MS: u64 = 400;
/// Duration of a period with blows, and of the pause after it: longer than `ECHO_PERIOD`, or nothing would be
/// judged.
const STORM_DURATION: Duration = Duration::from_secs(6);
const CALM_DURATION: Duration = Duration::from_secs(5);
/// Time after a blow within which a call that starts may still suffer from it: with many callers a killed
/// process takes longer to be gone, and the server to notice.
const ECHO_PERIOD: Duration = Duration::from_secs(2);
/// Minimum duration of a storm for judging growth of descriptors and threads.
const MIN_GROWTH_DURATION: Duration = Duration::from_secs(100);
/// Minimum duration for judging memory: the server's caches (outputs, scan reports and sessions) are full
/// after some 200 s.
const MIN_MEMORY_DURATION: Duration = Duration::from_secs(290);
/// Maximum growth of all caches, in KiB.
const MAX_CACHES_KIB: u64 = 96 << 10;
/// Minimum duration of a load for judging speed: in a shorter one, a single pause of the machine would be a
/// large part.
const MIN_SPEED_DURATION: Duration = Duration::from_secs(120);
/// Minimum number of times for judging a median.
const MIN_MEDIAN_TIMES: usize = 20;
/// Time limit for the server to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum growth of memory, in KiB per 1,000 calls. A leak of one page per call would be 4,000 KiB.
const MAX_SLOPE_KIB: f64 = 600.0;
/// Maximum number of the server's threads: 48 for file access, and a few others. Without a limit there were
/// 220.
const MAX_THREADS: u64 = 64;
/// Interval at which new rows of the history are read.
const READ_INTERVAL: Duration = Duration::from_millis(300);

#[derive(Default)]
struct Tally {
    calls: u64,
    right: u64,
    abused: BTreeMap<&'static str, u64>,
    failed: BTreeMap<String, u64>,
    killed: BTreeMap<Part, u64>,
    wrong: Vec<String>,
    answered: Vec<Answered>,
    /// Number of calls, and the server's resource use at that time.
    uses: Vec<(u64, Use)>,
}

struct Load {
    place: Place,
    children: Arc<Children>,
    server: Server,
    tokens: Vec<String>,
    state: PathBuf,
    said: PathBuf,
    seed: u64,
    has_tool: bool,
    /// Whether the load is long enough to judge speed.
    judges_speed: bool,
    mark: String,
    /// Number of the next mark: each request has a mark of its own.
    next: AtomicU64,
    over: AtomicBool,
    blows: Mutex<Vec<(Instant, Part)>>,
    tally: Mutex<Tally>,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    fn new(soak: &Soak, length: Duration, callers: usize) -> Result<Self, Box<dyn Error>> {
        let (place, children) = (soak.place.clone(), Arc::clone(&soak.children));
        let (state, said) = (place.work.join("servers/load"), place.work.join("said-load"));
        std::fs::create_dir_all(&state)?;
        std::fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        add_tool(&place, &children, &state)?;
        let mut dice = Dice::new(soak.arguments.seed, u64::MAX / 7);
        // Two more, for the quiet and the noisy caller.
        let tokens: Vec<String> = (0..callers.div_ceil(CALLERS_PER_TOKEN) + 2)
            .map(|_| format!("{:016x}{:016x}", dice.roll(), dice.roll()))
            .collect();
        let server = Server::start(&children, &place, &state, &tokens, &said)?;
        let mut load = Self {
            seed: soak.arguments.seed,
            mark: format!("{}-load", soak.mark),
            next: AtomicU64::new(0),
            over: false.into(),
            blows: Mutex::default(),
            tally: Mutex::default(),
            has_tool: true,
            judges_speed: length >= MIN_SPEED_DURATION,
            place,
            children,
            server,
            tokens,
            state,
            said,
        };
        // Each kind once in peace, with and without a session: a kind that does not work here shows now.
        for stateless in [false, true] {
            let web = load.web(0, stateless);
            for (n, kind) in (0..).zip(calls::here(&load.place, load.has_tool)) {
                let mut dice = Dice::new(load.seed, n);
                match load.call(&web, &mut dice, |asked| asked.of(kind)) {
                    Judged::Right => {}
                    Judged::Failed(why) if kind.name == "tool" => {
                        load.has_tool = false;
                        println!("skipped: no tools here: {why}");
                    }
                    other => return Err(format!("in peace, {}: {other:?}", kind.name).into()),
                }
            }
            let _ = web.leave(true);
        }
        Ok(load)
    }

    fn web(&self, token: usize, stateless: bool) -> Web {
        Web::new(self.server.address, &self.tokens[token], stateless)
    }

    /// A caller whose session has begun, so that its first call is like the others.
    fn begun(&self, token: usize) -> Web {
        let web = self.web(token, false);
        if let Err(why) = web.begin(REST_PERIOD) {
            self.wrong(format!("no session: {why:?}"));
        }
        web
    }

    /// Note printed next to a speed's numbers.
    fn verdict(&self) -> &'static str {
        if self.judges_speed { "" } else { " (not judged: the load is too short)" }
    }

    /// Makes a request, and records the runs that were answered.
    fn call(&self, web: &Web, dice: &mut Dice, does: impl FnOnce(&mut Asked<'_>) -> Judged) -> Judged {
        let mark = format!("{}-{}", self.mark, self.next.fetch_add(1, Ordering::Relaxed));
        let mut asked = Asked { client: web, dice: dice.clone(), mark, answered: Vec::new() };
        let judged = does(&mut asked);
        lock(&self.tally).answered.append(&mut asked.answered);
        judged
    }

    /// Whether one of these parts was killed so late that a call begun at `since` may suffer from it.
    fn was_struck(&self, since: Instant, echo: Duration, parts: &[Part]) -> bool {
        lock(&self.blows).iter().rev().any(|(at, part)| *at + echo >= since && parts.contains(part))
    }

    /// Judges a result, given the blows during the request.
    fn note(&self, what: &'static str, began: Instant, judged: Judged) {
        let took = began.elapsed();
        let any = PARTS.map(|part| part.0);
        let rests = what == "tool" && self.was_struck(began, REST_PERIOD, &any);
        let judged = match judged {
            // A blow to a part does not explain an HTTP error.
            Judged::Failed(why) if why.contains("HTTP ") || why.contains("the connection:") => {
                Judged::Wrong(why)
            }
            Judged::Failed(why) if !rests && !self.was_struck(began, ECHO_PERIOD, &any) => {
                Judged::Wrong(format!("failed without a blow, after {took:.1?}: {why}"))
            }
            Judged::Killed if !self.was_struck(began, ECHO_PERIOD, &[Part::Program, Part::Interpreter]) => {
                Judged::Wrong(format!("killed by nobody, after {took:.1?}"))
            }
            Judged::Lost => Judged::Wrong("the server went away".to_owned()),
            judged => judged,
        };
        let mut tally = lock(&self.tally);
        tally.calls += 1;
        match judged {
            Judged::Right => tally.right += 1,
            Judged::Failed(why) => *tally.failed.entry(why.chars().take(90).collect()).or_default() += 1,
            Judged::Killed => *tally.failed.entry("killed by SIGKILL".to_owned()).or_default() += 1,
            Judged::Lost => {}
            Judged::Wrong(why) => {
                drop(tally);
                self.wrong(format!("{what}: {why}"));
            }
        }
    }

    fn wrong(&self, why: String) {
        println!("WRONG    {}", why.chars().take(2000).collect::<String>());
        lock(&self.tally).wrong.push(why);
    }

    /// Lets callers make requests concurrently, each in a loop, until the time is over; returns the times of
    /// the calls.
    fn crowd(&self, webs: &[Web], length: Duration, does: impl Fn(&Web, &mut Dice) + Sync) -> Times {
        let began = Instant::now();
        self.crowd_while(webs, |_| began.elapsed() < length, does)
    }

    /// Like [`Self::crowd`], but each caller goes on while `goes_on` returns `true` for its number of calls.
    fn crowd_while(
        &self,
        webs: &[Web],
        goes_on: impl Fn(usize) -> bool + Sync,
        does: impl Fn(&Web, &mut Dice) + Sync,
    ) -> Times {
        let times = Mutex::new(Times::default());
        thread::scope(|scope| {
            for (number, web) in (0..).zip(webs) {
                let (goes_on, does, times) = (&goes_on, &does, &times);
                scope.spawn(move || {
                    let (mut dice, mut own) = (Dice::new(self.seed, u64::MAX / 2 + number), Times::default());
                    while goes_on(own.count()) {
                        let asked = Instant::now();
                        does(web, &mut dice);
                        own.add(asked.elapsed());
                        dice.roll();
                    }
                    lock(times).join(own);
                });
            }
        });
        times.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// A small run, which must be correct.
    fn small(&self, web: &Web, dice: &mut Dice) {
        let began = Instant::now();
        let judged = self.call(web, dice, |asked| {
            let mark = asked.mark.clone();
            let ran = asked.run("run_command", &json!({ "argv": ["echo", mark] }));
            ran.and_then(|answer| exited(&answer, 0, &format!("{mark}\n"))).err().unwrap_or(Judged::Right)
        });
        self.note("a small run", began, judged);
    }

    /// Load in peace: nothing fails, and no caller waits much longer than the others.
    fn peace(&self, webs: &[Web], length: Duration) {
        let judge = |what: &str, times: &Times| {
            println!("in peace, {} callers, {what}: {times}{}", webs.len(), self.verdict());
            let is_enough = self.judges_speed && times.count() >= MIN_PERCENTILE_TIMES;
            if is_enough && times.at(99) > times.at(50) * MAX_SPREAD {
                self.wrong(format!("{what}: p99 is more than {MAX_SPREAD} times p50: {times}"));
            }
        };
        // Lets sessions, interpreters and caches of the first calls be made.
        self.crowd(webs, length / 10, |web, dice| self.small(web, dice));
        judge("small runs", &self.crowd(webs, length / 3, |web, dice| self.small(web, dice)));
        if self.has_tool {
            let tool = self.crowd(webs, length / 3, |web, dice| {
                let (began, text) = (Instant::now(), format!("{:x}", dice.roll()));
                let judged = match web.call("echo_echo", &json!({ "text": text }), REST_PERIOD) {
                    Reply::Good(answer) if answer["result"] == text.as_str() => Judged::Right,
                    other => Judged::Wrong(format!("{other:?}")),
                };
                self.note("tool", began, judged);
            });
            judge("a tool of a plugin", &tool);
        }
        let kinds = calls::here(&self.place, self.has_tool);
        let mixed = self.crowd(webs, length / 3, |web, dice| self.ordinary(&kinds, web, dice));
        println!("in peace, {} callers, all kinds: {mixed}", webs.len());
    }

    fn ordinary(&self, kinds: &[&calls::Kind], web: &Web, dice: &mut Dice) {
        let kind = dice.weighted(kinds, |kind| kind.weight);
        let began = Instant::now();
        let judged = self.call(web, dice, |asked| asked.of(kind));
        self.note(kind.name, began, judged);
    }

    /// A quiet caller alone, beside a noisy one, and beside a noisy session of its own.
    fn fairness(&self, length: Duration) {
        let [quiet, noisy] = [self.tokens.len() - 1, self.tokens.len() - 2];
        let own = [self.begun(quiet)];
        let alone = self.crowd(&own, length, |web, dice| self.small(web, dice));
        println!("a quiet caller alone: {alone}");
        for (who, token) in [("another caller", noisy), ("another session of its own", quiet)] {
            // One session with many simultaneous requests.
            let first = self.begun(token);
            let loud: Vec<Web> = (0..NOISY_CALLS).map(|_| first.beside()).collect();
            let (began, is_done) = (Instant::now(), AtomicBool::new(false));
            let (beside, theirs) = thread::scope(|scope| {
                // As long as the quiet caller is there, but with a limit, since it may have failed.
                let goes_on =
                    |_: usize| !is_done.load(Ordering::Relaxed) && began.elapsed() < length + REST_PERIOD;
                let theirs =
                    scope.spawn(move || self.crowd_while(&loud, goes_on, |web, dice| self.small(web, dice)));
                thread::sleep(length / 10);
                let begins = Instant::now();
                // Slow callers make few calls in the time: they make some more, so that there is enough to
                // judge.
                let goes_on = |calls: usize| {
                    begins.elapsed() < length * 8 / 10 || self.judges_speed && calls < MIN_MEDIAN_TIMES
                };
                let beside = self.crowd_while(&own, goes_on, |web, dice| self.small(web, dice));
                is_done.store(true, Ordering::Relaxed);
                (beside, theirs.join().unwrap_or_default())
            });
            println!(
                "the same beside {who} with {NOISY_CALLS} calls at once: {beside}; theirs: {theirs}{}",
                self.verdict()
            );
            // A caller with one request at a time does not queue behind the many requests of another.
            if self.judges_speed && beside.at(50) * 2 > theirs.at(50) {
                self.wrong(format!("a quiet caller waits beside {who}: {beside}; theirs: {theirs}"));
            }
            let _ = first.leave(true);
        }
        let _ = own[0].leave(true);
    }

    /// Measures how long the processes of a cancelled run live.
    fn cancelling(&self, length: Duration) {
        let web = self.web(self.tokens.len() - 1, false);
        match abuse::cancelling(&web, &self.mark, &mut Dice::new(self.seed, 3), length) {
            Ok(times) => {
                println!(
                    "from run_cancel until the last of four processes is gone: {times}{}",
                    self.verdict()
                );
                if self.judges_speed
                    && times.count() >= MIN_PERCENTILE_TIMES
                    && times.at(99) > MAX_CANCEL_TIME
                {
                    self.wrong(format!("what is cancelled lives too long: {times}"));
                }
            }
            Err(why) => self.wrong(why),
        }
        let _ = web.leave(true);
    }

    /// All callers at once, well and badly behaved, while parts are killed.
    fn storm(&self, webs: &[Web], length: Duration) {
        let kinds = calls::here(&self.place, self.has_tool);
        let ledgers: Vec<Mutex<Ledger>> = webs.iter().map(|_| Mutex::default()).collect();
        thread::scope(|scope| {
            scope.spawn(|| self.strike());
            self.crowd(webs, length, |web, dice| {
                let began = Instant::now();
                match dice.below(100) {
                    0..55 => self.ordinary(&kinds, web, dice),
                    55..70 => {
                        let at = webs.iter().position(|one| std::ptr::eq(one, web)).unwrap_or(0);
                        let mut ledger = lock(&ledgers[at]);
                        let judged = self.call(web, dice, |asked| ledger.add(asked));
                        self.note("ledger", began, judged);
                    }
                    _ => {
                        let abuse = dice.weighted(&abuse::ALL, |abuse| abuse.weight);
                        let judged = self
                            .call(web, dice, |asked| (abuse.does)(asked, web).err().unwrap_or(Judged::Right));
                        self.note(abuse.name, began, judged);
                        *lock(&self.tally).abused.entry(abuse.name).or_default() += 1;
                    }
                }
            });
            self.over.store(true, Ordering::Relaxed);
        });
        thread::sleep(ECHO_PERIOD);
        for (web, ledger) in webs.iter().zip(&ledgers) {
            let began = Instant::now();
            let judged = self.call(web, &mut Dice::new(self.seed, 4), |asked| lock(ledger).close(asked));
            self.note("ledger", began, judged);
        }
    }

    /// Kills a part every few moments, and records the server's resource use.
    fn strike(&self) {
        let mut dice = Dice::new(self.seed, u64::MAX / 3);
        let (mut since, mut sampled) = (Instant::now(), Instant::now());
        while !self.over.load(Ordering::Relaxed) {
            thread::sleep(dice.time(MAX_BLOW_INTERVAL_MS));
            if sampled.elapsed() > Duration::from_secs(1) {
                sampled = Instant::now();
                let mut tally = lock(&self.tally);
                let calls = tally.calls;
                tally.uses.push((calls, uses(self.server.pid)));
            }
            if since.elapsed() > STORM_DURATION {
                thread::sleep(CALM_DURATION);
                since = Instant::now();
                continue;
            }
            let (part, choice) = (dice.weighted(&PARTS, |part| part.1).0, dice.roll());
            if part == Part::Server {
                continue;
            }
            let all = all();
            let found = of(&all, self.server.pid, part);
            if found.is_empty() {
                continue;
            }
            let victim = found[usize::try_from(choice % found.len() as u64).unwrap_or(0)];
            // Recorded before the blow, so that no call suffers from an unrecorded one.
            lock(&self.blows).push((Instant::now(), part));
            if self.children.signal_found(victim, Signal::SIGKILL) {
                lock(&self.blows).push((Instant::now(), part));
                *lock(&self.tally).killed.entry(part).or_default() += 1;
            }
        }
    }

    /// Counts the rows of the history as they are written.
    fn watch(&self, done: &AtomicBool) -> Seen {
        let mut seen = Seen::of(&self.state);
        loop {
            let last = done.load(Ordering::Relaxed);
            if let Err(why) = seen.look() {
                self.wrong(why);
                return seen;
            }
            if last {
                return seen;
            }
            thread::sleep(READ_INTERVAL);
        }
    }

    /// Ends the server, and checks its history.
    fn end(&self) {
        self.children.signal(self.server.pid, Signal::SIGTERM, false);
        let status = self.children.wait(self.server.pid, EXIT_TIMEOUT);
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        if !matches!(status, Some(WaitStatus::Exited(_, 0))) {
            self.wrong(format!("the server ended with {status:?}; it said {said:.2000}"));
            self.children.signal(self.server.pid, Signal::SIGKILL, false);
        }
        if said.contains("panicked") || said.contains("not in the history") {
            self.wrong(format!("the server said {said:.2000}"));
        }
        let rows = Rows { children: &self.children, place: &self.place, state: &self.state };
        rows.of_server(&[]).into_iter().for_each(|why| self.wrong(why));
    }

    /// Judges the growth of its resource use: at rest, before and after; and under load.
    fn growth(&self, before: &Use, after: &Use, length: Duration) {
        let tally = lock(&self.tally);
        let memory: Vec<(u64, u64)> =
            tally.uses.iter().map(|(calls, uses)| (*calls, uses.memory_kib)).collect();
        drop(tally);
        let part = |from: usize| {
            let part = &memory[from..];
            let ends = [part.first(), part.last()].map(|end| end.map_or(0, |(_, kib)| *kib));
            (slope(part), format!("{} to {} KiB, {:.0} KiB per 1,000 calls", ends[0], ends[1], slope(part)))
        };
        let (half, quarter) = (part(memory.len() / 2), part(memory.len() * 3 / 4));
        println!(
            "the server at rest: {before:?} before, {after:?} after the storm; in its second half {}; in its last quarter {}",
            half.1, quarter.1
        );
        if after.threads > MAX_THREADS {
            self.wrong(format!("the server has {} threads, and {MAX_THREADS} are allowed", after.threads));
        }
        if length < MIN_GROWTH_DURATION {
            return;
        }
        if after.descriptors > before.descriptors + 32 || after.threads > before.threads + 16 {
            self.wrong(format!("the server grew: {before:?} became {after:?}"));
        }
        if after.memory_kib > before.memory_kib + MAX_CACHES_KIB {
            self.wrong(format!(
                "the server's memory grew from {} to {} KiB",
                before.memory_kib, after.memory_kib
            ));
        }
        if length < MIN_MEMORY_DURATION {
            println!(
                "left out: whether its memory stays as it is: that shows in a storm of five minutes (--load 10)"
            );
        } else if quarter.0 > MAX_SLOPE_KIB {
            self.wrong(format!("the server's memory goes on growing: in the last quarter {}", quarter.1));
        }
    }
}

impl Soak {
    /// Runs the load with this number of callers for this long.
    pub fn load(self, length: Duration, callers: usize) -> Result<bool, Box<dyn Error>> {
        let began = Instant::now();
        let load = Load::new(&self, length, callers)?;
        println!("the server is up after {:.1} s", began.elapsed().as_secs_f64());
        let webs: Vec<Web> =
            (0..callers).map(|number| load.web(number / CALLERS_PER_TOKEN, number % 3 == 0)).collect();
        let done = AtomicBool::new(false);
        let (part, seen) = thread::scope(|scope| {
            let watch = scope.spawn(|| load.watch(&done));
            load.cancelling(length / 20);
            load.fairness(length / 20);
            load.peace(&webs, length / 4);
            webs.iter().for_each(Web::hang_up);
            thread::sleep(ECHO_PERIOD);
            let before = uses(load.server.pid);
            let storm = length / 2;
            load.storm(&webs, storm);
            webs.iter().for_each(Web::hang_up);
            // Leftovers end by themselves meanwhile.
            thread::sleep(ECHO_PERIOD * 2);
            load.growth(&before, &uses(load.server.pid), storm);
            done.store(true, Ordering::Relaxed);
            (storm, watch.join())
        });
        load.end();
        match seen {
            Ok(mut seen) => {
                // Rows that were written as it ended.
                seen.look().err().into_iter().for_each(|why| load.wrong(why));
                let answered = std::mem::take(&mut lock(&load.tally).answered);
                let wrong = seen.wrong(&load.mark, &answered);
                println!(
                    "{} runs in the history; {} of those that were answered have a mark",
                    seen.rows(),
                    answered.len()
                );
                wrong.into_iter().for_each(|why| load.wrong(why));
            }
            Err(_) => load.wrong("who counts the history failed".to_owned()),
        }
        load.report(part);
        self.settle(std::collections::HashMap::new());
        let wrong = std::mem::take(&mut lock(&load.tally).wrong);
        self.tally().wrong.extend(wrong);
        self.finish(began)
    }
}

impl Load {
    fn report(&self, storm: Duration) {
        let tally = lock(&self.tally);
        let list = |pairs: Vec<String>| pairs.join(", ");
        println!("abused: {}", list(tally.abused.iter().map(|(name, n)| format!("{name} {n}")).collect()));
        println!(
            "killed: {}",
            list(tally.killed.iter().map(|(part, n)| format!("{part:?} {n}").to_lowercase()).collect())
        );
        for (why, n) in &tally.failed {
            println!("said that it failed, {n} times: {why}");
        }
        println!(
            "load, a storm of {:.0} s in it: {} calls, {} right, {} said that they failed, {} wrong",
            storm.as_secs_f64(),
            tally.calls,
            tally.right,
            tally.failed.values().sum::<u64>(),
            tally.wrong.len()
        );
    }
}
