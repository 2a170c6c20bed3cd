//! The attacks of `hotcell-proof` as tests: each row for each user, without a sandbox, with every wall knocked out in turn, and in the weaker
//! confinement; and each test that is no row.

pub mod harness;
mod markdown;
