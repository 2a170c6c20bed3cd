//! `--chaos MINUTES`: two servers under load, parts of which are killed every few moments, alongside runs of
//! the program and of the library with blows of their own.
//!
//! One server may be killed and is started again; the other never is, and loses everything below it, again
//! and again: its memory, descriptors and threads must stay constant. An answer is correct, or reports a
//! failure, which is allowed only if something below its server was killed during the call. Every few seconds
//! there is a pause without blows.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;

use crate::Soak;
use crate::calls::{self, Answered, Asked, Judged};
use crate::client::Client;
use crate::dice::Dice;
use crate::history::Rows;
use crate::kinds::Place;
use crate::processes::{Children, all};
use crate::service::{Use, slope, uses};
use crate::victims::{PARTS, Part, of};

/// Duration of a period with blows, and of the pause after it.
const STORM_DURATION: Duration = Duration::from_secs(4);
const CALM_DURATION: Duration = Duration::from_secs(2);
/// Maximum time between two blows, in milliseconds.
const MAX_BLOW_INTERVAL_MS: u64 = 400;
/// Time after a blow within which a call that starts may still suffer from it: a killed process takes a moment
/// to be gone.
pub const ECHO_PERIOD: Duration = Duration::from_millis(500);
/// A server answers first and writes its history a moment later, several rows together: rows of answers
/// within this time before it was killed may be missing.
const WRITE_DELAY: Duration = Duration::from_millis(1500);
/// Time after a failure in which a tool's process may not be restarted: five failures in a minute cause a
/// pause of a minute.
pub const REST_PERIOD: Duration = Duration::from_secs(125);
/// Simultaneous calls per server.
const CONCURRENT_CALLS: u64 = 3;
/// Runs of the program and of the library per batch.
const BATCH_RUNS: u64 = 40;
/// Maximum growth of memory, in KiB per 1,000 calls. A leak of one page per call would be 4,000 KiB.
const MAX_SLOPE_KIB: f64 = 600.0;
/// Minimum duration for judging growth.
const MIN_GROWTH_DURATION: Duration = Duration::from_secs(120);
/// Minimum number of calls for judging a slope: the last 128 runs are kept.
const MIN_SLOPE_CALLS: u64 = 1000;

/// A server slot, whose current process changes.
struct Slot {
    client: RwLock<Arc<Client>>,
    state: PathBuf,
    said: PathBuf,
    mortal: bool,
    /// Times at which parts of it were killed.
    blows: Mutex<Vec<(Instant, Part)>>,
}

#[derive(Default)]
struct Tally {
    calls: u64,
    right: u64,
    /// Number of failures, by the beginning of their messages.
    failed: BTreeMap<String, u64>,
    lost: u64,
    kinds: BTreeMap<&'static str, u64>,
    killed: BTreeMap<Part, u64>,
    wrong: Vec<String>,
    /// Per server, by its state folder: the last runs that must be in its history.
    answered: BTreeMap<PathBuf, Vec<Answered>>,
    /// For the server that is never killed: its number of calls, and its resource use over them.
    spared: u64,
    uses: Vec<(u64, Use)>,
}

struct Chaos {
    place: Place,
    children: Arc<Children>,
    slots: [Slot; 2],
    seed: u64,
    has_tool: bool,
    mark: String,
    over: AtomicBool,
    tally: Mutex<Tally>,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether one of these parts was killed so late that a call begun at `since` may suffer from it.
    fn was_struck(&self, since: Instant, echo: Duration, parts: &[Part]) -> bool {
        lock(&self.blows).iter().any(|(at, part)| *at + echo >= since && parts.contains(part))
    }
}

impl Chaos {
    fn new(soak: &Soak) -> Result<Self, Box<dyn Error>> {
        let (place, children) = (soak.place.clone(), Arc::clone(&soak.children));
        let mut has_tool = true;
        let slot = |name: &str, mortal| -> Result<Slot, Box<dyn Error>> {
            let state = place.work.join(format!("servers/{name}"));
            std::fs::create_dir_all(&state)?;
            std::fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
            let said = place.work.join(format!("said-{name}"));
            add_tool(&place, &children, &state)?;
            let client = Client::start(&children, &place, &state, &said)?;
            let (client, blows) = (RwLock::new(Arc::new(client)), Mutex::default());
            Ok(Slot { client, state, said, mortal, blows })
        };
        let slots = [slot("mortal", true)?, slot("spared", false)?];
        let mut chaos = Self {
            seed: soak.arguments.seed,
            mark: soak.mark.clone(),
            over: false.into(),
            tally: Mutex::default(),
            has_tool,
            slots,
            place,
            children,
        };
        // Each kind once in peace: a kind that does not work here shows now, and caches reach their size.
        for slot in &chaos.slots {
            for (n, kind) in (0..).zip(calls::here(&chaos.place, true)) {
                match chaos.call(slot, kind, &mut Dice::new(chaos.seed, n)).0 {
                    Judged::Right => {}
                    // The host may be too weak for tools, whose hosts need namespaces.
                    Judged::Failed(why) if kind.name == "tool" => {
                        has_tool = false;
                        println!("skipped: no tools here: {why}");
                    }
                    other => return Err(format!("in peace, {}: {other:?}", kind.name).into()),
                }
            }
        }
        chaos.has_tool = has_tool;
        Ok(chaos)
    }

    /// Makes a call despite any blows; returns the verdict and the runs that were answered.
    fn call(&self, slot: &Slot, kind: &calls::Kind, dice: &mut Dice) -> (Judged, Vec<Answered>) {
        let client = slot.client();
        let mark = format!("{}-chaos-{:x}", self.mark, dice.roll());
        let mut asked = Asked { client: &*client, dice: dice.clone(), mark, answered: Vec::new() };
        let judged = asked.of(kind);
        (judged, asked.answered)
    }

    fn one(&self, slot: usize, kind: &calls::Kind, dice: &mut Dice) -> Judged {
        let slot = &self.slots[slot];
        let began = Instant::now();
        let (judged, mut new) = self.call(slot, kind, dice);
        let took = began.elapsed();
        let any = PARTS.map(|part| part.0);
        // A tool whose process failed five times in a minute rests for a minute.
        let rests = kind.name == "tool" && slot.was_struck(began, REST_PERIOD, &any);
        let judged = match judged {
            Judged::Failed(why) if !rests && !slot.was_struck(began, ECHO_PERIOD, &any) => {
                Judged::Wrong(format!("failed without a blow, after {took:.1?}: {why}"))
            }
            // An interpreter may have got its job in the moment in which it was killed.
            Judged::Killed if !slot.was_struck(began, ECHO_PERIOD, &[Part::Program, Part::Interpreter]) => {
                Judged::Wrong(format!("killed by nobody, after {took:.1?}"))
            }
            Judged::Lost if !slot.was_struck(began, ECHO_PERIOD, &[Part::Server]) => {
                Judged::Wrong("the server went away by itself".to_owned())
            }
            judged => judged,
        };
        let mut tally = lock(&self.tally);
        tally.calls += 1;
        tally.spared += u64::from(!slot.mortal);
        *tally.kinds.entry(kind.name).or_default() += 1;
        let answered = tally.answered.entry(slot.state.clone()).or_default();
        answered.append(&mut new);
        let many = answered.len().saturating_sub(300);
        answered.drain(..many);
        match &judged {
            Judged::Right => tally.right += 1,
            Judged::Failed(why) => *tally.failed.entry(why.chars().take(90).collect()).or_default() += 1,
            Judged::Killed => *tally.failed.entry("killed by SIGKILL".to_owned()).or_default() += 1,
            Judged::Lost => tally.lost += 1,
            Judged::Wrong(why) => {
                let why = format!("{} of {}: {why}", kind.name, slot.state.display());
                println!("WRONG    {}", why.chars().take(4000).collect::<String>());
                tally.wrong.push(why);
            }
        }
        judged
    }

    /// One caller of a server, until the end.
    fn calls(&self, slot: usize, number: u64) {
        let kinds = calls::here(&self.place, self.has_tool);
        let mut dice = Dice::new(self.seed, u64::MAX / 2 + number);
        while !self.over.load(Ordering::Relaxed) {
            let kind = dice.weighted(&kinds, |kind| kind.weight);
            let judged = self.one(slot, kind, &mut dice);
            dice.roll();
            if judged == Judged::Lost {
                thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// Kills a part every few moments.
    fn strike(&self) {
        let mut dice = Dice::new(self.seed, u64::MAX / 3);
        let (mut since, mut sampled) = (Instant::now(), Instant::now());
        while !self.over.load(Ordering::Relaxed) {
            thread::sleep(dice.time(MAX_BLOW_INTERVAL_MS));
            if sampled.elapsed() > Duration::from_secs(1) {
                sampled = Instant::now();
                let mut tally = lock(&self.tally);
                let calls = tally.spared;
                tally.uses.push((calls, uses(self.slots[1].client().pid)));
            }
            if since.elapsed() > STORM_DURATION {
                thread::sleep(CALM_DURATION);
                since = Instant::now();
                continue;
            }
            let slot = &self.slots[usize::from(dice.chance(50))];
            let part = dice.weighted(&PARTS, |part| part.1).0;
            let choice = dice.roll();
            if part == Part::Server && !slot.mortal {
                continue;
            }
            let client = slot.client();
            let all = all();
            let found = of(&all, client.pid, part);
            if found.is_empty() {
                continue;
            }
            let victim = found[usize::try_from(choice % found.len() as u64).unwrap_or(0)];
            // Recorded before the blow, so that no call suffers from an unrecorded one.
            let struck = Instant::now();
            lock(&slot.blows).push((struck, part));
            if self.children.signal_found(victim, Signal::SIGKILL) {
                lock(&slot.blows).push((Instant::now(), part));
                *lock(&self.tally).killed.entry(part).or_default() += 1;
                if part == Part::Server {
                    self.again(slot, &client, struck);
                }
            }
        }
    }

    /// Starts the next server in place of one that was killed.
    fn again(&self, slot: &Slot, old: &Client, struck: Instant) {
        let status = self.children.wait(old.pid, Duration::from_secs(30));
        let killed = matches!(status, Some(WaitStatus::Signaled(_, Signal::SIGKILL, _)));
        match Client::start(&self.children, &self.place, &slot.state, &slot.said) {
            Ok(next) => *slot.client.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next),
            Err(e) => lock(&self.tally).wrong.push(format!("no server can be started again: {e}")),
        }
        lock(&slot.blows).push((Instant::now(), Part::Server));
        let mut tally = lock(&self.tally);
        if let Some(answered) = tally.answered.get_mut(&slot.state) {
            answered.retain(|one| one.at + WRITE_DELAY < struck);
        }
        if !killed {
            tally.wrong.push(format!("a server that was killed ended with {status:?}"));
        }
    }

    /// Ends the servers, and checks their history.
    fn end(&self) {
        for slot in &self.slots {
            let client = slot.client();
            client.hang_up();
            let status = self.children.wait(client.pid, Duration::from_secs(30));
            let mut tally = lock(&self.tally);
            if !matches!(status, Some(WaitStatus::Exited(_, 0))) {
                tally.wrong.push(format!("a server that was let go ended with {status:?}"));
                let said = std::fs::read_to_string(&slot.said).unwrap_or_default();
                println!("WRONG    {:?}; it said {said:.2000}", tally.wrong.last());
                self.children.signal(client.pid, Signal::SIGKILL, false);
            }
            let answered = tally.answered.remove(&slot.state).unwrap_or_default();
            let rows = Rows { children: &self.children, place: &self.place, state: &slot.state };
            for why in rows.of_server(&answered) {
                println!("WRONG    {why}");
                tally.wrong.push(why);
            }
        }
    }
}

/// Adds the tool to a state folder.
pub fn add_tool(place: &Place, children: &Children, state: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let path = place.work.join("home/echo.wasm");
    std::fs::write(&path, wat::parse_str(calls::ECHO)?)?;
    let mut command = Command::new(&place.hotcell);
    command.args(["tool", "add", "--quiet", "--state"]).arg(state).arg(&path);
    crate::run::surroundings(&mut command, place);
    let (pid, child) = children.start(command.stdout(Stdio::null()).stdin(Stdio::null()))?;
    let status = children.wait(pid, Duration::from_secs(120));
    drop(child);
    match status {
        Some(WaitStatus::Exited(_, 0)) => Ok(()),
        other => Err(format!("hotcell tool add ended with {other:?}").into()),
    }
}

impl Soak {
    /// Runs under chaos for this long.
    pub fn chaos(mut self, length: Duration) -> Result<bool, Box<dyn Error>> {
        let began = Instant::now();
        let chaos = Chaos::new(&self)?;
        let spared = chaos.slots[1].client().pid;
        let before = uses(spared);
        println!("two servers are up after {:.1} s", began.elapsed().as_secs_f64());
        let mut answered = HashMap::new();
        let storm = Instant::now();
        thread::scope(|scope| -> Result<(), Box<dyn Error>> {
            scope.spawn(|| chaos.strike());
            for number in 0..2 * CONCURRENT_CALLS {
                let chaos = &chaos;
                scope.spawn(move || chaos.calls(usize::from(number % 2 == 1), number));
            }
            let mut next = self.arguments.first;
            let mut done = Ok(());
            while done.is_ok() && storm.elapsed() < length {
                // All rows of the last batch are in the history; some of earlier batches may have been
                // dropped.
                done = self.runs(next, next + BATCH_RUNS).map(|last| answered = last);
                next += BATCH_RUNS;
            }
            chaos.over.store(true, Ordering::Relaxed);
            done
        })?;
        thread::sleep(ECHO_PERIOD);
        // Again in peace: everything works.
        for (n, kind) in (0..).zip(calls::here(&chaos.place, chaos.has_tool)) {
            for slot in 0..2 {
                chaos.one(slot, kind, &mut Dice::new(chaos.seed, u64::MAX / 5 + n));
            }
        }
        let after = uses(spared);
        chaos.end();
        self.settle(answered);
        chaos.report(&before, &after, storm.elapsed());
        let wrong = std::mem::take(&mut lock(&chaos.tally).wrong);
        self.tally().wrong.extend(wrong);
        self.finish(began)
    }
}

impl Chaos {
    fn report(&self, before: &Use, after: &Use, took: Duration) {
        let mut tally = lock(&self.tally);
        // Launchers, interpreters and readers come and go, and a limited number of a caller's runs is kept:
        // so the end is compared with a time at which all of that had its size.
        let third = tally.uses.len() / 3;
        let most = |uses: &[(u64, Use)]| {
            let of = |get: fn(&Use) -> u64| uses.iter().map(|(_, uses)| get(uses)).max().unwrap_or_default();
            (of(|uses| uses.descriptors), of(|uses| uses.threads))
        };
        let (first, last) = (most(&tally.uses[..2 * third]), most(&tally.uses[2 * third..]));
        if took > MIN_GROWTH_DURATION && (last.0 > first.0 + 16 || last.1 > first.1 + 4) {
            tally
                .wrong
                .push(format!("the spared server grew: descriptors and threads {first:?} became {last:?}"));
            println!("WRONG    {:?}", tally.wrong.last());
        }
        let calls = tally.uses.last().map_or(0, |last| last.0);
        let memory: Vec<(u64, u64)> =
            tally.uses[third..].iter().map(|(calls, uses)| (*calls, uses.memory_kib)).collect();
        let growth = (calls >= MIN_SLOPE_CALLS).then(|| slope(&memory));
        if let Some(steep) = growth.filter(|slope| *slope > MAX_SLOPE_KIB) {
            tally.wrong.push(format!("the spared server's memory grows by {steep:.0} KiB per 1,000 calls"));
            println!("WRONG    {:?}", tally.wrong.last());
        }
        let list = |pairs: Vec<String>| pairs.join(", ");
        println!("calls: {}", list(tally.kinds.iter().map(|(name, n)| format!("{name} {n}")).collect()));
        println!(
            "killed: {}",
            list(tally.killed.iter().map(|(part, n)| format!("{part:?} {n}").to_lowercase()).collect())
        );
        for (why, n) in &tally.failed {
            println!("said that it failed, {n} times: {why}");
        }
        println!(
            "chaos for {:.0} s: {} calls, {} right, {} said that they failed, {} lost with their server, {} wrong",
            took.as_secs_f64(),
            tally.calls,
            tally.right,
            tally.failed.values().sum::<u64>(),
            tally.lost,
            tally.wrong.len()
        );
        let growth = growth.map_or(String::new(), |slope| format!("; {slope:.0} KiB per 1,000 calls"));
        println!(
            "the spared server: {before:?} before, {after:?} afterwards; at most {last:?} in the last third{growth}"
        );
    }
}
