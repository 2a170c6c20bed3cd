//! `hotcell-soak [RUNS | --chaos MINUTES | --load MINUTES [--callers N] | --hot COUNT] [--seed N] [--first N]
//! [--hotcell PATH]`: mixed runs of the hotcell program and of the library, some of them killed at random
//! moments, and a check for their leftovers.
//!
//! Runs come in batches of 1 to 6 at once. Each answer is judged; after each batch, and one more ordinary run
//! (the next start removes the leftovers of a dead one), nothing may be left: no process, mount, cgroup,
//! file, shared memory. A seed and a number of runs repeat all choices, though not the machine's timing;
//! `--first` begins with a later run.
//!
//! | module | idea |
//! | --- | --- |
//! | [`kinds`] | kinds of runs, and how they must end |
//! | [`run`] | one run: started, struck, judged |
//! | [`library`], [`service`] | runs through the library, in a long-lived process |
//! | [`chaos`], [`victims`] | servers under load of which parts are killed |
//! | [`client`], [`calls`] | a server, calls to it, and how they must end |
//! | [`load`], [`abuse`], [`ledger`] | many callers over HTTP, and their misbehaviour |
//! | [`web`], [`rates`], [`seen`] | a server over HTTP and one caller of it; times; rows of the history |
//! | [`hot`] | whether the thousandth prewarmed sandbox is as fast as the first |
//! | [`leftovers`], [`history`] | conditions after each batch |
//! | [`processes`], [`dice`] | children and their killing; choices that repeat |

#![forbid(unsafe_code)]

mod abuse;
mod calls;
mod chaos;
mod client;
mod dice;
mod history;
mod hot;
mod kinds;
mod ledger;
mod leftovers;
mod library;
mod load;
mod processes;
mod rates;
mod run;
mod seen;
mod service;
mod victims;
mod web;

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, thread};

use crate::dice::Dice;
use crate::history::Rows;
use crate::kinds::Place;
use crate::leftovers::Ground;
use crate::processes::Children;
use crate::run::Plan;
use crate::service::{Service, Use, slope};

const USAGE: &str = "usage: hotcell-soak [RUNS | --chaos MINUTES | --load MINUTES [--callers N] | --hot COUNT] [--seed N] \
                     [--first N] [--hotcell PATH]   (200 runs; 200 callers; a new seed; from the first run; the hotcell \
                     beside this program)";
/// Time limit for leftovers to disappear.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum growth of memory, in KiB per 1,000 runs. A leak of one page per run would be 4,000 KiB.
const MAX_SLOPE_KIB: f64 = 400.0;
/// Minimum number of the service's runs for judging a slope: before that its memory is still reaching its
/// size.
const MIN_SLOPE_RUNS: u64 = 500;

struct Arguments {
    runs: u64,
    seed: u64,
    first: u64,
    hotcell: PathBuf,
    /// Duration of the chaos with servers, in place of a number of runs.
    chaos: Option<Duration>,
    /// Duration of the load with many callers, in place of a number of runs; and the number of callers.
    load: Option<Duration>,
    callers: usize,
    /// Number of prewarmed sandboxes, used one after the other, in place of everything else.
    hot: Option<usize>,
}

fn arguments(words: impl Iterator<Item = String>) -> Result<Arguments, Box<dyn Error>> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let seed = now.as_secs() << 20 | u64::from(now.subsec_micros());
    let hotcell = std::env::current_exe()?.with_file_name("hotcell");
    let mut arguments =
        Arguments { runs: 200, seed, first: 0, hotcell, chaos: None, load: None, callers: 200, hot: None };
    let mut words = words;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(USAGE);
        match word.as_str() {
            "--seed" => arguments.seed = value()?.parse().map_err(|_| USAGE)?,
            "--first" => arguments.first = value()?.parse().map_err(|_| USAGE)?,
            "--chaos" | "--load" => {
                let minutes: f64 = value()?.parse().map_err(|_| USAGE)?;
                let length = Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| USAGE)?;
                let which = if word == "--chaos" { &mut arguments.chaos } else { &mut arguments.load };
                *which = Some(length);
            }
            "--callers" => {
                let callers = value()?.parse().ok().filter(|n| (1..=1000).contains(n));
                arguments.callers = callers.ok_or(USAGE)?;
            }
            "--hot" => arguments.hot = Some(value()?.parse().ok().filter(|n| *n >= 200).ok_or(USAGE)?),
            "--hotcell" => arguments.hotcell = value()?.into(),
            runs => arguments.runs = runs.parse().map_err(|_| USAGE)?,
        }
    }
    arguments.hotcell = fs::canonicalize(&arguments.hotcell)
        .map_err(|e| format!("{}: {e}; cargo build -p hotcell", arguments.hotcell.display()))?;
    Ok(arguments)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.as_slice() {
        [word, mark] if word == "library" => library::serve(mark).map(|()| true),
        _ => arguments(words.into_iter()).and_then(|arguments| {
            match (arguments.hot, arguments.chaos, arguments.load) {
                (Some(count), ..) => hot::measure(count),
                (None, Some(length), _) => Soak::new(arguments)?.chaos(length),
                (None, None, Some(length)) => {
                    let callers = arguments.callers;
                    Soak::new(arguments)?.load(length, callers)
                }
                (None, None, None) => Soak::new(arguments)?.run(),
            }
        }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("hotcell-soak: {error}");
            ExitCode::from(125)
        }
    }
}

/// Results so far.
#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    /// Number of runs that were planned to be struck.
    planned: u64,
    /// Number of processes that were killed or paused.
    struck: u64,
    /// Number of runs that ended without an answer because hotcell was killed.
    killed: u64,
    /// Number of runs in the history.
    answered: usize,
    library_runs: u64,
    library_launchers: u64,
    library_given_up: u64,
    kinds: BTreeMap<&'static str, u64>,
    wrong: Vec<String>,
    left: Vec<String>,
    slowest_settling: Duration,
    /// The service's number of runs and memory over time.
    memory: Vec<(u64, u64)>,
    uses: Vec<Use>,
}

struct Soak {
    arguments: Arguments,
    place: Place,
    mark: String,
    children: Arc<Children>,
    service: Service,
    ground: Ground,
    tally: Mutex<Tally>,
    _folder: tempfile::TempDir,
}

impl Soak {
    fn new(arguments: Arguments) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::Builder::new().prefix("soak-").tempdir()?;
        prepare(folder.path())?;
        let mark = format!("soak-{}", std::process::id());
        let mut place = Place {
            work: folder.path().to_owned(),
            hotcell: arguments.hotcell.clone(),
            cgroups: false,
            python: Path::new("/usr/bin/python3").exists(),
        };
        let children = Children::collect()?;
        let mut service = Service::start(&children, &place, &mark)?;
        // Its first runs fill its caches.
        service.order(arguments.seed, 20)?;
        let report = service.report()?;
        let folders = Service::cgroup_folders(&report);
        place.cgroups = !folders.is_empty();
        let ground = Ground::before(&place, &mark, folders);
        println!(
            "seed {}, {}; user {}, {}, {}",
            arguments.seed,
            match (arguments.chaos, arguments.load) {
                (Some(length), _) => format!("chaos for {} s", length.as_secs()),
                (_, Some(length)) =>
                    format!("load of {} callers for {} s", arguments.callers, length.as_secs()),
                _ => format!("{} runs", arguments.runs),
            },
            nix::unistd::geteuid(),
            if place.cgroups { "cgroups" } else { "no cgroups" },
            place.hotcell.display()
        );
        if !place.python {
            println!("skipped: no /usr/bin/python3: the kinds that need it are left out");
        }
        let tally = Mutex::default();
        Ok(Self { arguments, place, mark, children, service, ground, tally, _folder: folder })
    }

    fn run(mut self) -> Result<bool, Box<dyn Error>> {
        let began = Instant::now();
        let size = (self.arguments.runs / 20).clamp(50, 250);
        let mut next = self.arguments.first;
        let end = next + self.arguments.runs;
        while next < end {
            let (last, batch) = ((next + size).min(end), Instant::now());
            let answered = self.runs(next, last)?;
            self.settle(answered);
            self.say(last - next, batch);
            next = last;
        }
        self.finish(began)
    }

    /// Runs `from` to `to`, a quarter of them through the library. Returns marks and correct causes of the
    /// program's answered runs.
    fn runs(&mut self, from: u64, to: u64) -> Result<HashMap<String, Vec<&'static str>>, Box<dyn Error>> {
        let mut dice = Dice::new(self.arguments.seed, u64::MAX - from);
        let at_once = 1 + dice.below(6);
        let by_library = (to - from) / 4;
        self.service.order(dice.roll(), by_library)?;
        let next = AtomicU64::new(from);
        let answered = Mutex::new(HashMap::new());
        thread::scope(|scope| {
            for worker in 0..at_once {
                let (soak, next, answered) = (&*self, &next, &answered);
                scope.spawn(move || {
                    let said = soak.place.work.join(format!("said-{worker}"));
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= to - by_library {
                            return;
                        }
                        if let Some((mark, causes)) = soak.one(number, &said) {
                            answered.lock().unwrap_or_else(PoisonError::into_inner).insert(mark, causes);
                        }
                    }
                });
            }
        });
        let report = self.service.report()?;
        self.after_library(&report);
        Ok(answered.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Prints the progress.
    fn say(&self, runs: u64, began: Instant) {
        let tally = self.tally();
        println!(
            "{:6} runs, the last {runs} in {:.1} s; {} struck so far; wrong {}, left {}; service: {:?}",
            tally.runs,
            began.elapsed().as_secs_f64(),
            tally.struck,
            tally.wrong.len(),
            tally.left.len(),
            self.service.uses()
        );
    }

    /// One run of the program; returns its mark and correct causes when it was answered.
    fn one(&self, number: u64, said: &Path) -> Option<(String, Vec<&'static str>)> {
        let mut dice = Dice::new(self.arguments.seed, number);
        let kinds = kinds::here(&self.place);
        let kind = dice.weighted(&kinds, |k| k.weight);
        let mark = format!("{}-{number}", self.mark);
        let case = kind.case(&mut dice, &self.place, &mark);
        let plan = Plan::draw(&mut dice, kind, &case);
        let done = run::run(&self.children, &self.place, &case, plan, said);
        let mut tally = self.tally();
        tally.runs += 1;
        tally.planned += u64::from(plan.is_some());
        tally.struck += done.struck;
        tally.killed += u64::from(done.killed);
        *tally.kinds.entry(kind.name).or_default() += 1;
        if let Some(why) = done.wrong {
            let why = format!("run {number}, {}: {why}", kind.name);
            println!("WRONG    {why}");
            tally.wrong.push(why);
        }
        let causes = done.answered?;
        tally.answered += 1;
        Some((mark, causes))
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn after_library(&self, report: &serde_json::Value) {
        let number = |name: &str| report[name].as_u64().unwrap_or(0);
        let mut tally = self.tally();
        tally.runs += number("runs");
        tally.library_runs += number("runs");
        tally.library_launchers += number("killed");
        tally.library_given_up += number("given_up");
        for why in report["wrong"].as_array().into_iter().flatten() {
            println!("WRONG    {why}");
            tally.wrong.push(why.to_string());
        }
    }

    /// Makes one more ordinary run, and waits a little: then nothing may be left.
    fn settle(&self, mut answered: HashMap<String, Vec<&'static str>>) {
        answered.extend(self.ordinary_run());
        let (left, took) = self.left(Some(self.service.pid));
        let mut tally = self.tally();
        tally.slowest_settling = tally.slowest_settling.max(took);
        for what in left {
            println!("LEFT     {what}");
            tally.left.push(what);
        }
        let state = self.place.work.join("state");
        let rows = Rows { children: &self.children, place: &self.place, state: &state };
        for why in rows.of_program(&answered, tally.answered) {
            println!("WRONG    {why}");
            tally.wrong.push(why);
        }
        let uses = self.service.uses();
        let runs = tally.library_runs;
        tally.memory.push((runs, uses.memory_kib));
        tally.uses.push(uses);
    }

    fn ordinary_run(&self) -> Option<(String, Vec<&'static str>)> {
        let mark = format!("{}-after-{}", self.mark, self.tally().uses.len());
        let case = kinds::plain(&mark);
        let done = run::run(&self.children, &self.place, &case, None, &self.place.work.join("said"));
        let mut tally = self.tally();
        tally.answered += usize::from(done.answered.is_some());
        if let Some(why) = done.wrong {
            println!("WRONG    an ordinary run afterwards: {why}");
            tally.wrong.push(why);
        }
        Some((mark, done.answered?))
    }

    fn left(&self, living: Option<i32>) -> (Vec<String>, Duration) {
        let began = Instant::now();
        loop {
            let left = self.ground.left(&self.children, living);
            if left.is_empty() || began.elapsed() > CLEANUP_TIMEOUT {
                return (left, began.elapsed());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the service as well: then nothing at all is left.
    fn finish(mut self, began: Instant) -> Result<bool, Box<dyn Error>> {
        let pid = self.service.pid;
        self.service.hang_up();
        let status = self.children.wait(pid, Duration::from_secs(30));
        let (left, _) = self.left(None);
        let ended = matches!(status, Some(nix::sys::wait::WaitStatus::Exited(_, 0)));
        let mut tally = std::mem::take(&mut *self.tally());
        if !ended {
            tally.wrong.push(format!("the service ended with {status:?}"));
        }
        for what in &left {
            println!("LEFT     at the end: {what}");
        }
        tally.left.extend(left);
        let slope = judge_growth(&mut tally);
        let growth = slope.map_or(String::new(), |slope| format!(", {slope:.0} KiB per 1,000 runs"));
        let Tally {
            runs, planned, struck, killed, library_runs, library_launchers, library_given_up, ..
        } = tally;
        let kinds: Vec<String> = tally.kinds.iter().map(|(name, n)| format!("{name} {n}")).collect();
        println!("kinds: {}", kinds.join(", "));
        println!(
            "{runs} runs in {:.0} s: {} of the program ({planned} to be struck, {struck} processes killed or paused, {killed} left without an answer), \
             {library_runs} through the library ({library_launchers} launchers killed, {library_given_up} given up)",
            began.elapsed().as_secs_f64(),
            runs - library_runs
        );
        println!(
            "longest settling {:.1} s; the service: {:?} after the first batch, {:?} after the last{growth}",
            tally.slowest_settling.as_secs_f64(),
            tally.uses.first().copied().unwrap_or_default(),
            tally.uses.last().copied().unwrap_or_default()
        );
        let failed = tally.wrong.len() + tally.left.len();
        println!(
            "left behind: {}; wrong: {}; seed {}",
            tally.left.len(),
            tally.wrong.len(),
            self.arguments.seed
        );
        // In the format of the other tests, for `scripts/test`: all runs together are one test.
        let ok = failed == 0;
        println!(
            "test result: {}. {} passed; {} failed; 0 ignored;",
            if ok { "ok" } else { "FAILED" },
            u8::from(ok),
            u8::from(!ok)
        );
        Ok(ok)
    }
}

/// Checks that descriptors, threads and memory of the service do not grow. Returns the slope of its memory
/// without the first third, if there were enough runs.
fn judge_growth(tally: &mut Tally) -> Option<f64> {
    let first = tally.uses.first().copied().unwrap_or_default();
    let last = tally.uses.last().copied().unwrap_or_default();
    // Two launchers at most, each with a socket, a process and a cgroup's files, come and go.
    if last.descriptors > first.descriptors + 8 || last.threads > first.threads + 1 {
        tally.wrong.push(format!("the service grew: {first:?} became {last:?}"));
        println!("WRONG    {:?}", tally.wrong.last());
    }
    if tally.library_runs < MIN_SLOPE_RUNS {
        return None;
    }
    let slope = slope(&tally.memory[tally.memory.len() / 3..]);
    if slope > MAX_SLOPE_KIB {
        tally.wrong.push(format!("the service's memory grows by {slope:.0} KiB per 1,000 runs"));
        println!("WRONG    {:?}", tally.wrong.last());
    }
    Some(slope)
}

/// Prepares the folders of a soak. An ordinary user id inside must be able to reach the scratch of
/// `landlock-only`.
fn prepare(work: &Path) -> std::io::Result<()> {
    fs::set_permissions(work, fs::Permissions::from_mode(0o755))?;
    for name in ["home", "tmp", "state", "out", "project/sub"] {
        fs::create_dir_all(work.join(name))?;
    }
    fs::set_permissions(work.join("state"), fs::Permissions::from_mode(0o700))?;
    for (name, more) in [("passes", ""), ("fails", "    def test_sum(self): self.assertEqual(2 + 3, 6)\n")] {
        fs::create_dir(work.join(name))?;
        let tests = format!(
            "import unittest\n\nclass T(unittest.TestCase):\n    def test_one(self): pass\n    \
             def test_writes(self):\n        with open('made', 'w') as file: file.write('x')\n{more}"
        );
        fs::write(work.join(name).join("test_it.py"), tests)?;
    }
    fs::write(work.join("project/file"), "original\n")?;
    fs::write(work.join("project/sub/other"), "other\n")
}
