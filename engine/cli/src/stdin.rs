//! Standard input that the guard reads before the run, if the run executes it.
//!
//! Only then is it read ahead, up to its end; the program gets all of it nevertheless. A terminal, and a pipe
//! that stays silent for a while, have no end to wait for: they are not read, and the guard reports that.

use std::fs::File;
use std::io::{Cursor, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use hotcell_review::whole_command::{Ahead, Input, MAX_INPUT_BYTES};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Time of silence after which a pipe counts as endless.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Standard input, and the part of it that was read ahead.
#[derive(Debug)]
pub struct Given {
    file: File,
    ahead: Vec<u8>,
}

impl Given {
    /// Wraps a file from which nothing has been read yet.
    pub fn new(file: File) -> Self {
        Self { file, ahead: Vec::new() }
    }

    /// A reader of all of it, in order, for the program.
    pub fn into_reader(self) -> impl Read + Send + 'static {
        Cursor::new(self.ahead).chain(self.file)
    }

    /// Waits for input; fails with the reason why nothing more can be read.
    fn wait(&self) -> Result<(), String> {
        let timeout = PollTimeout::try_from(SILENCE_TIMEOUT).unwrap_or(PollTimeout::NONE);
        loop {
            let mut all = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
            return match poll(&mut all, timeout) {
                Err(Errno::EINTR) => continue,
                Err(error) => Err(format!("it cannot be waited for: {error}")),
                Ok(0) => Err(format!("it did not end, and nothing came for {} s", SILENCE_TIMEOUT.as_secs())),
                Ok(_) => Ok(()),
            };
        }
    }
}

impl Input for Given {
    fn read_ahead(&mut self) -> Ahead {
        if self.file.is_terminal() {
            return Ahead::NotRead("it is a terminal; give it with --stdin FILE".to_owned());
        }
        let mut piece = vec![0; 64 * 1024];
        loop {
            if let Err(why) = self.wait() {
                return Ahead::NotRead(format!("{why}; give it with --stdin FILE"));
            }
            match self.file.read(&mut piece) {
                Ok(0) => return Ahead::Whole(self.ahead.clone()),
                Ok(n) => self.ahead.extend_from_slice(&piece[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Ahead::NotRead(format!("it cannot be read: {error}")),
            }
            if self.ahead.len() > MAX_INPUT_BYTES {
                return Ahead::NotRead(format!("it is longer than {} MiB", MAX_INPUT_BYTES >> 20));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn all(given: Given) -> Vec<u8> {
        let mut bytes = Vec::new();
        given.into_reader().read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn input_read_ahead_is_preserved() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"print(1)\n").unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut given = Given::new(file);
        assert!(matches!(given.read_ahead(), Ahead::Whole(bytes) if bytes == b"print(1)\n"));
        assert_eq!(all(given), b"print(1)\n");
    }

    #[test]
    fn oversized_input_passes_unread() {
        let mut file = tempfile::tempfile().unwrap();
        let long = vec![b'#'; MAX_INPUT_BYTES + 200_000];
        file.write_all(&long).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut given = Given::new(file);
        assert!(matches!(given.read_ahead(), Ahead::NotRead(why) if why.contains("4 MiB")));
        assert!(all(given) == long);
    }
}
