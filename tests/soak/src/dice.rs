//! Random choices that a seed repeats: SplitMix64, with one stream per run, independent of the other runs.

use std::time::Duration;

/// A stream of choices.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Stream of one run of a seed.
    pub fn new(seed: u64, run: u64) -> Self {
        let mut dice = Self(seed ^ run.wrapping_mul(0xd134_2543_de82_ef95));
        dice.roll();
        dice
    }

    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// Returns `true` in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Picks one of these.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        let index = self.below(among.len() as u64);
        &among[usize::try_from(index).unwrap_or(0)]
    }

    /// Picks one of these by weight.
    pub fn weighted<'a, T>(&mut self, among: &'a [T], weight: impl Fn(&T) -> u64) -> &'a T {
        let mut at = self.below(among.iter().map(&weight).sum());
        let found = among.iter().find(|one| match at.checked_sub(weight(one)) {
            Some(rest) => {
                at = rest;
                false
            }
            None => true,
        });
        found.unwrap_or(&among[0])
    }

    /// A time below `millis`, to the microsecond.
    pub fn time(&mut self, millis: u64) -> Duration {
        Duration::from_micros(self.below(millis * 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_repeats_and_runs_differ() {
        let rolls = |seed, run| (0..4).map(|_| Dice::new(seed, run).roll()).collect::<Vec<_>>();
        assert_eq!(rolls(7, 1), rolls(7, 1));
        assert_ne!(rolls(7, 1), rolls(7, 2));
        assert_ne!(rolls(7, 1), rolls(8, 1));
    }

    #[test]
    fn weighted_choice_follows_weights() {
        let mut dice = Dice::new(1, 1);
        let kinds = [("never", 0), ("often", 9), ("rare", 1)];
        let drawn: Vec<&str> = (0..10_000).map(|_| dice.weighted(&kinds, |k| k.1).0).collect();
        let count = |name| drawn.iter().filter(|n| **n == name).count();
        assert_eq!(count("never"), 0);
        assert!((800..1200).contains(&count("rare")));
    }
}
