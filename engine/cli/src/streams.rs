//! The program's streams and ours: what it prints goes out as it comes, what we are fed goes in.
//!
//! Our streams belong to others as well, so they are never made non-blocking: a thread writes and a thread reads.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use hotcell_sandbox::{Canceller, Chunk, StdinWriter};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};

/// Chunks (of at most 64 KiB) that wait here while nobody reads our output; then the program waits.
const BACKLOG: usize = 16;
/// However slow our reader is, one more chunk is taken this often: the last output of a program that has ended is
/// dropped by the engine when nobody takes it within a second.
const TRICKLE: Duration = Duration::from_millis(200);

/// Writes chunks out until there are no more; cancels the run when standard output is broken.
pub async fn print(mut chunks: mpsc::Receiver<Chunk>, canceller: Canceller) -> io::Result<()> {
    let Some(first) = chunks.recv().await else { return Ok(()) };
    let (sender, receiver) = mpsc::channel(1);
    let (done, finished) = oneshot::channel();
    let (out, err) = (duplicate(&io::stdout())?, duplicate(&io::stderr())?);
    std::thread::spawn(move || done.send(write_out(receiver, out, err)));
    let mut backlog = VecDeque::from([first]);
    let mut open = true;
    while open || !backlog.is_empty() {
        tokio::select! {
            chunk = chunks.recv(), if open && backlog.len() < BACKLOG => match chunk {
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
            () = tokio::time::sleep(TRICKLE), if open && backlog.len() >= BACKLOG => {
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

fn write_out(mut chunks: mpsc::Receiver<Chunk>, mut out: File, mut err: File) -> io::Result<()> {
    while let Some(chunk) = chunks.blocking_recv() {
        match chunk {
            Chunk::Stdout(bytes) => out.write_all(&bytes)?,
            // Nobody who closed standard error wants to hear of it.
            Chunk::Stderr(bytes) => drop(err.write_all(&bytes)),
        }
    }
    Ok(())
}

/// Feeds a program from a file, until the file ends or the program no longer reads.
pub fn feed(mut from: File, mut to: StdinWriter) {
    let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(2);
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
    tokio::spawn(async move {
        while let Some(piece) = receiver.recv().await {
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    });
}
