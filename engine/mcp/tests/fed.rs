//! Feeds arbitrary bytes to both transports: no panic, also in their tasks, and no hang. Like the fuzz
//! targets `mcp_stdio` and `mcp_http`, with mutations that are made here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hotcell_mcp::fuzzing;

/// Duration for each transport; `HOTCELL_FED_SECONDS` overrides it.
const FEED_DURATION: Duration = Duration::from_secs(3);

/// SplitMix64: generates the same bytes every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) >> 1).unwrap()
    }

    fn below(&mut self, end: usize) -> usize {
        self.roll() % end.max(1)
    }

    /// A seed with a few mutations.
    fn changed(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..self.below(6) {
            let at = self.below(bytes.len());
            let other = &seeds[self.below(seeds.len())];
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] = self.roll().to_le_bytes()[0],
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(at..(at + self.below(40)).min(bytes.len()))),
                4 => {
                    let from = self.below(other.len());
                    let piece = other[from..(from + self.below(200)).min(other.len())].to_vec();
                    drop(bytes.splice(at..at, piece));
                }
                _ => {
                    let piece =
                        [&b"\xff\xfe"[..], b"\0", b"[[[[[[", b"\r\n\r\n", b"1e999", b"\\ud800", b"\n"];
                    drop(bytes.splice(at..at, piece[self.below(piece.len())].repeat(1 + self.below(300))));
                }
            }
        }
        bytes
    }
}

#[test]
fn arbitrary_bytes_cause_no_panic_or_hang() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |about| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        usual(about);
    }));
    let seconds = std::env::var("HOTCELL_FED_SECONDS").ok().and_then(|text| text.parse().ok());
    let length = seconds.map_or(FEED_DURATION, Duration::from_secs);
    let seeds = fuzzing::seeds();
    for (name, seeds, front) in [
        ("stdio", &seeds[0], fuzzing::stdio as fn(&[u8], usize) -> Result<Vec<u8>, String>),
        ("http", &seeds[1], fuzzing::http),
    ] {
        // The unchanged seeds first, to show that they are understood, so that mutations of them are
        // meaningful.
        let said: Vec<String> = seeds
            .iter()
            .map(|seed| String::from_utf8_lossy(&front(seed, 4096).unwrap()).into_owned())
            .collect();
        assert!(said.iter().any(|text| text.contains("understood")), "{name}: {said:#?}");
        let (began, mut dice, mut fed) = (std::time::Instant::now(), Dice(7), 0);
        // An endless stream takes two seconds; a minimum number of inputs is tried in any case.
        while began.elapsed() < length || fed <= 20 {
            let bytes = dice.changed(seeds);
            let piece = 1 + dice.below(bytes.len());
            if let Err(why) = front(&bytes, piece) {
                panic!("{name}, in pieces of {piece}: {why}: {:?}", String::from_utf8_lossy(&bytes));
            }
            let panics = PANICS.load(Ordering::Relaxed);
            assert_eq!(panics, 0, "{name}, in pieces of {piece}: {:?}", String::from_utf8_lossy(&bytes));
            fed += 1;
        }
        println!("{name}: {fed} inputs");
    }
}
