//! Connects the program's streams with hotcell's: output is passed on as it arrives, and so is input.
//!
//! hotcell's streams are shared with other processes, so they are never made non-blocking: one thread writes
//! and one reads.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use hotcell_sandbox::{Canceller, Chunk, StdinWriter};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};

use crate::terminal::screen::Screen;

/// Maximum number of queued chunks (of at most 64 KiB each) while the output is not read; then the program
/// waits.
const MAX_QUEUED_CHUNKS: usize = 16;
/// Interval at which one more chunk is taken, however slow the reader is: the engine drops the last output of
/// a program that has ended if it is not taken within a second.
const CHUNK_INTERVAL: Duration = Duration::from_millis(200);

/// Writes chunks until there are no more, to a terminal through a [`Screen`]; cancels the run when standard
/// output is closed.
pub async fn print(chunks: mpsc::Receiver<Chunk>, canceller: Canceller, raw: bool) -> io::Result<()> {
    let to = (duplicate(&io::stdout())?, duplicate(&io::stderr())?);
    write(chunks, canceller, to, move |stream| Screen::of(stream, raw)).await
}

/// Like [`print`], to files in place of standard output and standard error, byte for byte.
pub async fn print_to(
    chunks: mpsc::Receiver<Chunk>,
    canceller: Canceller,
    to: (File, File),
) -> io::Result<()> {
    write(chunks, canceller, to, |stream| Screen::of(stream, true)).await
}

/// Like [`print`], for a program that has a terminal of its own: it may use the whole screen, and what it
/// changed there is undone at its end.
pub async fn print_screen(chunks: mpsc::Receiver<Chunk>, canceller: Canceller, raw: bool) -> io::Result<()> {
    let to = (duplicate(&io::stdout())?, duplicate(&io::stderr())?);
    write(chunks, canceller, to, move |stream| Screen::whole(stream, raw)).await
}

async fn write(
    mut chunks: mpsc::Receiver<Chunk>,
    canceller: Canceller,
    (out, err): (File, File),
    screen: impl Fn(&File) -> Screen + Send + 'static,
) -> io::Result<()> {
    let Some(first) = chunks.recv().await else { return Ok(()) };
    let (sender, receiver) = mpsc::channel(1);
    let (done, finished) = oneshot::channel();
    std::thread::spawn(move || done.send(write_out(receiver, out, err, screen)));
    let mut backlog = VecDeque::from([first]);
    let mut open = true;
    while open || !backlog.is_empty() {
        tokio::select! {
            chunk = chunks.recv(), if open && backlog.len() < MAX_QUEUED_CHUNKS => match chunk {
                Some(chunk) => backlog.push_back(chunk),
                None => open = false,
            },
            place = sender.reserve(), if !backlog.is_empty() => match (place, backlog.pop_front()) {
                (Ok(place), Some(chunk)) => place.send(chunk),
                _ => {
                    canceller.cancel();
                    break;
                }
            },
            () = tokio::time::sleep(CHUNK_INTERVAL), if open && backlog.len() >= MAX_QUEUED_CHUNKS => {
                backlog.extend(chunks.try_recv());
            }
        }
    }
    drop((sender, chunks));
    finished.await.unwrap_or(Ok(()))
}

fn duplicate(stream: &impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

fn write_out(
    mut chunks: mpsc::Receiver<Chunk>,
    mut out: File,
    mut err: File,
    screen: impl Fn(&File) -> Screen,
) -> io::Result<()> {
    let (mut to_out, mut to_err) = (screen(&out), screen(&err));
    while let Some(chunk) = chunks.blocking_recv() {
        match chunk {
            Chunk::Stdout(bytes) => out.write_all(to_out.pass(&bytes))?,
            // An error is ignored: a caller who closed standard error does not want the output.
            Chunk::Stderr(bytes) => drop(err.write_all(to_err.pass(&bytes))),
        }
    }
    let _ = err.write_all(to_err.finish());
    out.write_all(to_out.finish())
}

/// Feeds a program from a file, until the file ends or the program no longer reads.
pub fn feed(from: impl Read + Send + 'static, mut to: StdinWriter) {
    let mut receiver = chunks(from);
    tokio::spawn(async move {
        while let Some(piece) = receiver.recv().await {
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    });
}

/// Contents of a file as they come, in pieces of at most 64 KiB; a thread reads.
pub fn chunks(mut from: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel::<Vec<u8>>(2);
    std::thread::spawn(move || {
        let mut piece = vec![0; 64 * 1024];
        loop {
            match from.read(&mut piece) {
                Ok(0) => return,
                Ok(n) => {
                    if sender.blocking_send(piece[..n].to_vec()).is_err() {
                        return;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    tracing::warn!("standard input cannot be read: {e}; the program sees its end");
                    return;
                }
            }
        }
    });
    receiver
}
