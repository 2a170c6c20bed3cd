//! The operations of hotcell: each request of a person, a script or a model is prepared and executed here once, for
//! every front end.
//!
//! Profile, configuration and request become a policy ([`hotcell_config`]), the program is found and its code is
//! scanned ([`request`]), the sandbox runs it ([`execute()`]), and the report says how it ended. The crate knows no
//! command-line options and prints nothing.
//!
//! | module | idea |
//! | --- | --- |
//! | [`request`] | one run, from the request to all that is needed to execute it |
//! | [`in_force`] | the policy of a run, as receipts state it |
//! | [`mod@execute`] | the one place where a prepared run is executed |
//! | [`elsewhere`] | runs that another machine executes |
//! | [`mod@test`] | the tests of a project, as runs |
//! | [`suites`] | several test suites of one project |
//! | [`language`] | source texts: file name, program and compiler by language |
//! | [`compile`] | compilation before a run, in a sandbox of its own |
//! | [`workspaces`] | workspaces that outlive a run |
//! | [`pinned`] | a workspace held for the time of a run |
//! | [`changes`] | what happens to the changes of a run |
//! | [`outputs`] | files of a run that are copied out |
//! | [`images`], [`image_build`] | images of root file systems |
//! | [`caches`] | kept data of the state folder: sizes, pruning |
//! | `builds`, `build_folders` | results of compilers that outlive a run |
//! | `mounts_below`, `outer_git` | mounts and git folders of a workspace that lie elsewhere |
//! | [`plantable`] | places where a commit could plant a program |
//! | `processors` | number of processors for a run's variables |
//! | `secrets` | values of a run's secrets, and the routes that send them |
//! | [`token_ends`] | ends of tokens that were made for runs |
//! | `certificates` | the certificate by which connections are intercepted, where clients look for it |
//! | `variables` | environment of a run |

#![forbid(unsafe_code)]

mod build_folders;
pub mod builds;
pub mod caches;
mod certificates;
pub mod changes;
pub mod compile;
pub mod elsewhere;
pub mod execute;
pub mod image_build;
pub mod images;
pub mod in_force;
pub mod language;
mod mounts_below;
mod outer_git;
pub mod outputs;
pub mod pinned;
pub mod plantable;
mod processors;
pub mod request;
mod secrets;
pub mod suites;
pub mod test;
pub mod token_ends;
pub mod upward;
mod variables;
pub mod workspaces;

pub use changes::ChangePolicy;
pub use execute::{Executed, Observer, execute, execute_policy};
pub use language::Language;
pub use request::{Merged, Prepared, RunRequest, RunTarget, Source};
pub use test::{PreparedTest, TestRequest, Unready};
