//! Images from Debian packages: resolving and downloading them, and merging their files into one tree.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`sources`] | the archives of a release |
//! | [`apt`] | the host's apt in a private folder: dependencies, downloads, signatures |
//! | [`ar`], [`deb`], [`control`] | a package's file, parsed as untrusted input |
//! | [`merge`], [`layer`] | packages' files as one archive |

pub mod apt;
pub mod ar;
pub mod control;
pub mod deb;
pub mod layer;
pub mod merge;
pub mod sources;
