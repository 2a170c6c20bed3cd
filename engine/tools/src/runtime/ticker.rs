//! Clock that interrupts guests: a thread that counts up every 10 ms while calls run, and sleeps after a
//! second without calls.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// Interval at which a guest that computes returns to the host: 10 % of the shortest sensible wall limit. A
/// hundred wake-ups a second have no measurable cost.
const TICK_INTERVAL: Duration = Duration::from_millis(10);

/// Number of ticks without a call before the thread sleeps: waking it costs some microseconds, so it does not
/// sleep after every call.
const MAX_IDLE_TICKS: u32 = 100;

#[derive(Default)]
struct Shared {
    /// Number of running calls.
    running: AtomicU64,
    /// Number of calls so far: a change between two ticks means that there was a call.
    begun: AtomicU64,
    asleep: AtomicBool,
}

/// The clock's thread. It ends after the last of its engines.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

/// Keeps the clock running until it is dropped.
pub(crate) struct Running(Arc<Shared>);

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let weak = engine.weak();
        let of_thread = Arc::clone(&shared);
        let run = move || {
            let (mut seen, mut idle) = (0, 0);
            while let Some(engine) = weak.upgrade() {
                engine.increment_epoch();
                drop(engine);
                let begun = of_thread.begun.load(Ordering::SeqCst);
                let busy = begun != seen || of_thread.running.load(Ordering::SeqCst) > 0;
                seen = begun;
                idle = if busy { 0 } else { idle + 1 };
                if idle < MAX_IDLE_TICKS {
                    thread::sleep(TICK_INTERVAL);
                    continue;
                }
                // Announced before the last check, as a call counts itself before it checks `asleep`: one of
                // the two sees the other.
                of_thread.asleep.store(true, Ordering::SeqCst);
                if of_thread.begun.load(Ordering::SeqCst) == seen {
                    thread::park();
                }
                of_thread.asleep.store(false, Ordering::SeqCst);
                idle = 0;
            }
        };
        let handle = thread::Builder::new().name("tool-clock".to_owned()).stack_size(64 << 10).spawn(run)?;
        Ok(Self { shared, thread: handle.thread().clone() })
    }

    /// Keeps the clock running for a call, for as long as the returned value lives.
    pub(crate) fn run(&self) -> Running {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        self.shared.begun.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Running(Arc::clone(&self.shared))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

// Without this the thread would sleep forever. The engine itself may live on in a `Prepared`, which can no
// longer be called.
impl Drop for Ticker {
    fn drop(&mut self) {
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticker_resumes_after_pause_and_ends_with_engine() {
        let engine = Engine::default();
        let ticker = Ticker::start(&engine).expect("a thread");
        let asleep = |wanted: bool| {
            for _ in 0..1_000 {
                if ticker.shared.asleep.load(Ordering::SeqCst) == wanted {
                    return;
                }
                thread::sleep(TICK_INTERVAL);
            }
            panic!("the clock is not {}", if wanted { "asleep" } else { "awake" });
        };
        asleep(true);
        let running = ticker.run();
        asleep(false);
        drop(running);
        asleep(true);
        let shared = Arc::clone(&ticker.shared);
        drop(engine);
        drop(ticker);
        for _ in 0..1_000 {
            if Arc::strong_count(&shared) == 1 {
                return;
            }
            thread::sleep(TICK_INTERVAL);
        }
        panic!("the thread has not ended");
    }
}
