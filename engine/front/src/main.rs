//! The front of `hotcell`; see [`hotcell::front`].

#![forbid(unsafe_code)]

fn main() {
    hotcell::front()
}
