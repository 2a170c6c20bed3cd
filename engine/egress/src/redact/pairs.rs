//! A set of pairs of bytes. Pure.

use zeroize::Zeroizing;

/// Number of pairs of bytes.
const PAIRS: usize = 1 << 16;

/// A set of pairs, a bit for each: so that the whole set stays in the processor's nearest cache. Empty sets take no memory.
#[derive(Default)]
pub(super) struct Pairs(Zeroizing<Vec<u64>>);

impl Pairs {
    pub(super) fn add(&mut self, first: u8, second: u8) {
        self.0.resize(PAIRS / 64, 0);
        let number = number(first, second);
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub(super) fn has(&self, first: u8, second: u8) -> bool {
        let number = number(first, second);
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

fn number(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}
