//! Types and values between WIT and JSON, tested with components that are made for it.

mod bounds;
mod describe;
mod handles;
mod random;
mod table;
mod wit;
