//! Types and values between WIT and JSON, against components that are made for it.

mod bounds;
mod describe;
mod random;
mod table;
mod wit;
