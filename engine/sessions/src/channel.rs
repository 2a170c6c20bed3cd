//! Results and output of an interpreter: the socket with its driver, and the streams of its program.

use std::io;
use std::time::Duration;

use hotcell_sandbox::Chunk;
use hotcell_sandbox::lines::LineBuffer;
use tokio::io::AsyncReadExt;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc::Receiver;

use crate::answer::Told;
use crate::marked::Marked;

/// Maximum size of a line of the driver's, in bytes: pictures in base64, a value and an error.
const MAX_LINE_BYTES: usize = 8 << 20;
/// Maximum time between a result and the end of its output. It passes only where a cell closed the driver's own copies of the streams, too.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(300);

/// Both ways out of an interpreter, put together.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedReadHalf,
    line: LineBuffer,
    /// Bytes that came with the end of the last line.
    rest: Vec<u8>,
    chunks: Receiver<Chunk>,
    /// Whether the program closed its streams.
    is_silent: bool,
}

/// One of the two streams of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Both streams of a cell.
#[derive(Debug)]
pub struct Streams {
    /// Standard output.
    pub stdout: Marked,
    /// Standard error.
    pub stderr: Marked,
}

impl Streams {
    /// Streams that end with a mark.
    pub fn new(mark: &str) -> Self {
        Self { stdout: Marked::new(mark), stderr: Marked::new(mark) }
    }

    /// Takes a piece, and shows what of it is output.
    pub fn take(&mut self, chunk: &Chunk, show: &mut (dyn FnMut(Stream, &[u8]) + Send)) {
        let (stream, out) = match chunk {
            Chunk::Stdout(bytes) => (Stream::Stdout, self.stdout.push(bytes)),
            Chunk::Stderr(bytes) => (Stream::Stderr, self.stderr.push(bytes)),
        };
        if !out.is_empty() {
            show(stream, &out);
        }
    }

    /// Bytes on both streams.
    pub fn bytes(&self) -> u64 {
        self.stdout.kept.bytes + self.stderr.kept.bytes
    }

    fn are_over(&self) -> bool {
        self.stdout.is_over && self.stderr.is_over
    }
}

/// Next thing that comes.
#[derive(Debug)]
pub enum Next {
    /// A line of the driver's.
    Told(Told),
    /// A piece of output.
    Chunk(Chunk),
    /// The end of the interpreter, or of its socket.
    End,
}

impl Channel {
    /// A channel of these ends.
    pub fn new(socket: OwnedReadHalf, chunks: Receiver<Chunk>) -> Self {
        let line = LineBuffer::new(MAX_LINE_BYTES);
        Self { socket, line, rest: Vec::new(), chunks, is_silent: false }
    }

    /// Waits for the next thing. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Next {
        loop {
            let (used, is_whole) = self.line.push(&self.rest);
            self.rest.drain(..used);
            if self.line.is_cut() {
                return Next::End;
            }
            if is_whole {
                // A line of another form was written by a cell.
                match serde_json::from_slice(&self.line.take()) {
                    Ok(told) => return Next::Told(told),
                    Err(_) => continue,
                }
            }
            let mut piece = [0; 16 << 10];
            tokio::select! {
                read = self.socket.read(&mut piece) => match read {
                    Ok(0) => return Next::End,
                    Ok(length) => self.rest.extend_from_slice(&piece[..length]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return Next::End,
                },
                chunk = self.chunks.recv(), if !self.is_silent => match chunk {
                    Some(chunk) => return Next::Chunk(chunk),
                    None => self.is_silent = true,
                },
            }
        }
    }

    /// Takes the output up to the marks, after the result came.
    pub async fn drain(&mut self, streams: &mut Streams, show: &mut (dyn FnMut(Stream, &[u8]) + Send)) {
        let until = tokio::time::Instant::now() + OUTPUT_TIMEOUT;
        while !streams.are_over() && !self.is_silent {
            match tokio::time::timeout_at(until, self.chunks.recv()).await {
                Ok(Some(chunk)) => streams.take(&chunk, show),
                Ok(None) => self.is_silent = true,
                Err(_) => break,
            }
        }
        for (stream, marked) in [(Stream::Stdout, &mut streams.stdout), (Stream::Stderr, &mut streams.stderr)]
        {
            let rest = marked.flush();
            if !rest.is_empty() {
                show(stream, &rest);
            }
        }
    }

    /// Takes output that came between cells, of threads and processes that earlier ones left: it belongs to none of the cells.
    pub fn drop_late(&mut self) {
        while self.chunks.try_recv().is_ok() {}
    }
}
