//! Passes an archive from a writing thread to a reader, so that it is never whole on disk.

use std::io::{self, BufWriter, PipeReader, PipeWriter, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Buffer size of the writer, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// The reading end. Fails, instead of ending early, when the writer failed.
pub struct Archive<'a> {
    from: PipeReader,
    whole: &'a AtomicBool,
}

impl Read for Archive<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.from.read(out)? {
            // The pipe ends regularly only after the writer has reported that everything is written.
            0 if !out.is_empty() && !self.whole.load(Ordering::Acquire) => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it was not written to its end"))
            }
            count => Ok(count),
        }
    }
}

/// Runs `write` in a thread and `read` in this one. The writer's error takes precedence, since the reader's
/// error follows from it, unless the writer failed because the reader had stopped.
///
/// # Errors
/// The error of either side; `broken` tells whether a writer's error only means that the reader stopped.
pub fn piped<A: Send, B, E: From<io::Error> + Send, F: From<E>>(
    write: impl FnOnce(BufWriter<PipeWriter>) -> Result<A, E> + Send,
    read: impl FnOnce(&mut Archive<'_>) -> Result<B, F>,
    broken: impl Fn(&E) -> bool,
) -> Result<(A, B), F> {
    let (from, to) = io::pipe().map_err(|e| F::from(E::from(e)))?;
    let whole = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // Kept open until the writer has reported success.
            let end = to.try_clone()?;
            let written = write(BufWriter::with_capacity(BUFFER_BYTES, to));
            whole.store(written.is_ok(), Ordering::Release);
            drop(end);
            written
        });
        let read = {
            let mut archive = Archive { from, whole: &whole };
            read(&mut archive)
        };
        let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (written, read) {
            (Ok(written), read) => Ok((written, read?)),
            (Err(error), Err(other)) if broken(&error) => Err(other),
            (Err(error), _) => Err(F::from(error)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn run(fail: bool, stop: bool) -> Result<((), usize), io::Error> {
        piped(
            |mut out| {
                out.write_all(&vec![1; 1 << 20])?;
                if fail { Err(io::Error::other("the writer's")) } else { out.flush() }
            },
            |archive| {
                if stop {
                    return Err(io::Error::other("the reader's"));
                }
                let mut bytes = Vec::new();
                archive.read_to_end(&mut bytes)
            },
            |error| error.kind() == io::ErrorKind::BrokenPipe,
        )
    }

    #[test]
    fn pipe_failure_reports_its_cause() {
        assert_eq!(run(false, false).unwrap().1, 1 << 20);
        assert_eq!(run(true, false).unwrap_err().to_string(), "the writer's");
        assert_eq!(run(false, true).unwrap_err().to_string(), "the reader's");
    }
}
