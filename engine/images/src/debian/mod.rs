//! Images from Debian packages: which, from where, and how their files become one tree.
//!
//! | module | what |
//! | --- | --- |
//! | [`sources`] | the archives of a release |
//! | [`apt`] | the host's apt in a private folder: dependencies, downloads, signatures |
//! | [`ar`], [`deb`], [`control`] | a package's file, read without trust |
//! | [`merge`], [`layer`] | packages' files as one archive |

pub mod apt;
pub mod ar;
pub mod control;
pub mod deb;
pub mod layer;
pub mod merge;
pub mod sources;
