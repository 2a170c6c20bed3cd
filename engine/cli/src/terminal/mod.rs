//! Standard output and standard error of hotcell itself.
//!
//! | module | idea |
//! | --- | --- |
//! | [`screen`] | a person's terminal, with a program's bytes filtered |
//! | [`notes`] | short messages on standard error |
//! | [`mod@log`] | the log |
//! | [`progress`] | progress of long work |

pub(crate) mod log;
pub(crate) mod notes;
pub(crate) mod progress;
pub(crate) mod screen;
