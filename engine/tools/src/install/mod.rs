//! Where plugins come from, who vouches for them, what they request and what a person granted.
//!
//! | module | idea |
//! | --- | --- |
//! | [`sources`] | files, folders, URLs and registries |
//! | [`signature`], [`cosign`] | who vouches for a component |
//! | [`manifest`], [`request`] | a plugin's statement about itself; the capabilities it requests |
//! | [`grant`] | capabilities in force |
//! | [`update`] | differences between two versions |

pub mod cosign;
pub mod grant;
pub mod manifest;
pub mod request;
pub mod signature;
pub mod sources;
pub mod update;
