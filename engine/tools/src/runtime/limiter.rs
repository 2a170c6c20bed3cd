//! Counts the resources of a guest's instances, and remembers which limit refused one.

use wasmtime::ResourceLimiter;

use crate::limits::{Limit, Limits};

/// A limit that the host itself found to be reached, as the error that ends the call.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{0} limit reached")]
pub(crate) struct Reached(pub(crate) Limit);

/// Resource counts of one call.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// Maximum size of all memories together, in bytes.
    memory: u64,
    /// Bytes in use: by memories, and by the host on behalf of the guest.
    used: u64,
    /// Maximum of `used` so far.
    peak: u64,
    /// Amount that the last growth added to `used`, to be subtracted if the growth fails after all.
    last: u64,
    table_elements: usize,
    tables: usize,
    instances: usize,
    /// Limit that was refused last. A guest may cope with a refusal, so this alone does not end the call.
    refused: Option<Limit>,
}

impl Limiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory: limits.memory.0,
            used: 0,
            peak: 0,
            last: 0,
            table_elements: limits.table_elements as usize,
            tables: limits.tables as usize,
            instances: limits.instances as usize,
            refused: None,
        }
    }

    /// Begins another call of the same instance, whose memory stays in use.
    pub(crate) fn begin(&mut self) {
        (self.peak, self.refused) = (self.used, None);
    }

    /// Counts memory of the host that the guest fills, as if it were the guest's own.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<(), Reached> {
        if self.grow(bytes as u64) { Ok(()) } else { Err(Reached(Limit::Memory)) }
    }

    /// Returns an amount that [`Self::keep`] counted.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes as u64);
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    pub(crate) fn refused(&self) -> Option<Limit> {
        self.refused
    }

    fn grow(&mut self, by: u64) -> bool {
        self.last = 0;
        let Some(used) = self.used.checked_add(by).filter(|used| *used <= self.memory) else {
            self.refused = Some(Limit::Memory);
            return false;
        };
        (self.last, self.used, self.peak) = (by, used, self.peak.max(used));
        true
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.grow(desired.saturating_sub(current) as u64))
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.used = self.used.saturating_sub(std::mem::take(&mut self.last));
        Ok(())
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let fits = desired <= self.table_elements;
        if !fits {
            self.refused = Some(Limit::TableElements);
        }
        Ok(fits)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.tables
    }

    // Each instance may have one memory; their sum is limited.
    fn memories(&self) -> usize {
        self.instances
    }
}

#[cfg(test)]
mod tests {
    use hotcell_sandbox::Bytes;

    use super::*;

    fn limiter() -> Limiter {
        Limiter::new(&Limits { memory: Bytes(100), table_elements: 10, ..Limits::default() })
    }

    #[test]
    fn memories_are_summed() {
        let mut limiter = limiter();
        for (current, desired, fits, used) in
            [(0, 60, true, 60), (0, 41, false, 60), (60, 80, true, 80), (0, 20, true, 100)]
        {
            assert_eq!(
                limiter.memory_growing(current, desired, None).expect("no trap"),
                fits,
                "{current} to {desired}"
            );
            assert_eq!(limiter.used, used);
        }
        assert_eq!((limiter.peak(), limiter.refused()), (100, Some(Limit::Memory)));
    }

    #[test]
    fn failed_growth_is_released_once() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 70, None).expect("no trap"));
        limiter.memory_grow_failed(wasmtime::Error::msg("no")).expect("no trap");
        limiter.memory_grow_failed(wasmtime::Error::msg("no")).expect("no trap");
        assert_eq!(limiter.used, 0);
        assert!(!limiter.memory_growing(0, usize::MAX, None).expect("no trap"));
    }

    #[test]
    fn host_memory_counts_against_limit() {
        let mut limiter = limiter();
        limiter.keep(90).expect("it fits");
        assert!(limiter.keep(20).is_err());
        limiter.release(90);
        limiter.keep(100).expect("it fits again");
    }

    #[test]
    fn table_growth_is_limited() {
        let mut limiter = limiter();
        assert!(limiter.table_growing(0, 10, None).expect("no trap"));
        assert_eq!(limiter.refused(), None);
        assert!(!limiter.table_growing(10, 11, None).expect("no trap"));
        assert_eq!(limiter.refused(), Some(Limit::TableElements));
    }
}
