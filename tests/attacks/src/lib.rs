//! The attacks of `hotcell-proof` as tests: each row for each user, without a sandbox, with every layer
//! removed in turn, and in the weaker confinement; and each test that is not a row.

pub mod harness;
mod markdown;
