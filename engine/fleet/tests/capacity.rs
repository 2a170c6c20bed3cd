//! Capacity of a farm by a discrete simulation, whose table is in `docs/src/fleet.md`. The scheduler's time was
//! measured with BuildGrid; the law of the queue checks the simulation where there is a formula.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;

/// Times of one farm, in seconds.
#[derive(Clone, Copy)]
struct Farm {
    /// Slots of all workers together.
    slots: u32,
    /// Time of the scheduler for one action, which it takes one after the other.
    dispatch: f64,
    /// Mean time of a program; exponential.
    program: f64,
    /// hotcell's share of an action: sandbox, answer, laying from the cache.
    share: f64,
    /// Time to fetch the input of an action whose blobs are not in the worker's cache.
    fetch: f64,
    /// Part of the actions whose input is in the cache.
    hits: f64,
}

/// Result of a simulation.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Actions a second that came.
    rate: f64,
    /// Mean time from the request to the start, in seconds.
    mean: f64,
    /// Its median and 99th percentile.
    median: f64,
    most: f64,
    /// Part of the slots' time that was used.
    used: f64,
    /// The last tenth waited five times as long as the second, and more than a second longer: the farm falls behind.
    behind: bool,
}

/// Numbers between 0 and 1 that are the same in each run: xorshift64*.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let part = high as f64 / (1_u64 << 53) as f64;
        part
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).ln()
    }
}

/// A time in whole nanoseconds, which has an order.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of a simulation")]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Runs `count` actions that come at random, with this load of the slots.
#[expect(clippy::cast_precision_loss, reason = "counts")]
fn simulate(farm: Farm, load: f64, count: u32) -> Seen {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let service = farm.program + farm.share + farm.fetch * (1.0 - farm.hits);
    let rate = load * f64::from(farm.slots) / service;
    let mut free: BinaryHeap<Reverse<u64>> = (0..farm.slots).map(|_| Reverse(0)).collect();
    let (mut now, mut dispatcher, mut busy, mut end) = (0.0, 0.0_f64, 0.0, 0.0_f64);
    let mut waits = Vec::new();
    for _ in 0..count {
        now += dice.exponential(1.0 / rate);
        dispatcher = dispatcher.max(now) + farm.dispatch;
        let fetch = if dice.next() < farm.hits { 0.0 } else { farm.fetch };
        let service = dice.exponential(farm.program) + farm.share + fetch;
        let Some(Reverse(slot)) = free.pop() else { continue };
        let start = dispatcher.max(slot as f64 / 1e9);
        waits.push(start - now);
        busy += service;
        end = end.max(start + service);
        free.push(Reverse(nanos(start + service)));
    }
    let part = waits.len() / 10;
    let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
    let (early, late) = (mean(&waits[part..2 * part]), mean(&waits[9 * part..]));
    let behind = late > 5.0 * early && late > early + 1.0;
    let all = mean(&waits);
    waits.sort_by(f64::total_cmp);
    Seen {
        rate,
        mean: all,
        median: waits[waits.len() / 2],
        most: waits[waits.len() * 99 / 100],
        used: busy / (end * f64::from(farm.slots)),
        behind,
    }
}

/// Mean time in the queue by the formula of Erlang for `slots` servers with exponential times.
fn erlang(slots: u32, load: f64, service: f64) -> f64 {
    let offered = load * f64::from(slots);
    // Erlang's B by its recursion, and C from it.
    let blocked = (1..=slots).fold(1.0, |b, at| offered * b / (f64::from(at) + offered * b));
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    waits * service / (f64::from(slots) * (1.0 - load))
}

#[test]
fn simulation_follows_the_law_of_the_queue() {
    for (slots, load) in [(1, 0.5), (2, 0.8), (10, 0.7), (10, 0.9)] {
        let farm = Farm { slots, dispatch: 0.0, program: 1.0, share: 0.0, fetch: 0.0, hits: 1.0 };
        let (seen, law) = (simulate(farm, load, 400_000), erlang(slots, load, 1.0));
        let off = (seen.mean - law).abs() / law;
        assert!(off < 0.05, "{slots} at {load}: {} for {law}", seen.mean);
        assert!((seen.used - load).abs() < 0.02, "{}", seen.used);
    }
}

/// hotcell's share and the time to fetch an input: assumptions, see the chapter.
const SHARE: f64 = 0.060;
const FETCH: f64 = 0.9;
/// Measured with BuildGrid 0.4.4.
const DISPATCH: f64 = 0.100;
/// Mean time of a program: a test of a library.
const PROGRAM: f64 = 2.0;
/// Price of a processor for an hour, for scale.
const PRICE: f64 = 0.04;

fn row(slots: u32, dispatch: f64, hits: f64) -> String {
    let farm = Farm { slots, dispatch, program: PROGRAM, share: SHARE, fetch: FETCH, hits };
    let seen = simulate(farm, 0.7, 60_000.max(slots * 20));
    let time = |seconds: f64| match seconds {
        s if s < 0.0995 => format!("{:.0} ms", s * 1000.0),
        s if s < 9.95 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    };
    let waits = if seen.behind {
        "falls behind | –".to_owned()
    } else {
        format!("{} | {}", time(seen.median), time(seen.most))
    };
    let service = PROGRAM + SHARE + FETCH * (1.0 - hits);
    let cost = 1000.0 * service / 3600.0 * PRICE / 0.7;
    format!(
        "| {slots} | {:.0} % | {:.1} ms | {:.0} | {waits} | {cost:.3} |",
        hits * 100.0,
        dispatch * 1000.0,
        seen.rate
    )
}

#[test]
fn chapter_has_the_table_of_the_simulation() {
    let mut table = String::new();
    for (slots, dispatch, hits) in [
        (10, DISPATCH, 0.9),
        (10, DISPATCH, 0.0),
        (20, DISPATCH, 0.9),
        (100, DISPATCH, 0.9),
        (100, 0.010, 0.9),
        (1000, 0.010, 0.9),
        (1000, 0.001, 0.9),
        (10_000, 0.001, 0.9),
        (10_000, 0.0001, 0.9),
    ] {
        writeln!(table, "{}", row(slots, dispatch, hits)).expect("a string");
    }
    let chapter = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/fleet.md");
    let chapter = std::fs::read_to_string(chapter).expect("the chapter");
    assert!(chapter.contains(&table), "docs/src/fleet.md has to have this table:\n{table}");
}
