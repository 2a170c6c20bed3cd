//! The small program that packages install as `hotcell`, with the whole program behind it.
//!
//! A start of the whole program reads 600 pages before `main`, most of them to apply relocations: as much time as a sandbox takes. The front
//! has the code of a plain run alone, and does what the whole program would do by the same functions; it becomes the whole program
//! for any other command line, and for one that it does not understand. The linker leaves out what a plain run does not reach. What a run
//! needs of the whole program as another process (the guard's reader) is started from the whole program's file.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hotcell_sandbox::own_program;
use hotcell_scanning::reader;

use crate::{exit, plain};

/// Version of this program, which is also in the name of the whole program's file.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs a plain `hotcell run`, prints the version, or becomes the whole program.
pub fn front() -> ! {
    let words: Vec<OsString> = std::env::args_os().collect();
    answer_version(&words);
    let whole = own_program::engine(VERSION);
    // Without the whole program nothing would be scanned.
    if let Ok(whole) = &whole
        && let Some(plain) = plain::plain(&words)
    {
        reader::read_with(whole.clone());
        std::process::exit(plain.run().into());
    }
    let error = match whole {
        Ok(whole) => format!("{} cannot be started: {}", whole.display(), become_whole(&whole, &words)),
        Err(error) => error.to_string(),
    };
    eprintln!("hotcell: error: {error}");
    std::process::exit(exit::REFUSED.into());
}

/// Replaces this process by the whole program: with the same arguments, variables, descriptors and signal mask, which a `Command` would reset.
/// Returns the error.
fn become_whole(whole: &Path, words: &[OsString]) -> nix::Error {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| nix::Error::EINVAL);
    let become_it = || {
        let program = text(whole.as_os_str().as_bytes())?;
        let words = words.iter().map(|word| text(word.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        nix::unistd::execv(&program, &words)
    };
    match become_it() {
        Err(error) => error,
        Ok(never) => match never {},
    }
}

/// Prints the version and ends, if that is all that is asked for. Without the definitions of the command line: hosts of tools and
/// scripts ask for it at each start.
pub(crate) fn answer_version(words: &[OsString]) {
    if matches!(words, [_, word] if word == "--version" || word == "-V") {
        let text = concat!("hotcell ", env!("CARGO_PKG_VERSION"), "\n");
        std::process::exit(exit::printed(exit::print_text(text), 0).into());
    }
}
