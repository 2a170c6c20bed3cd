//! A test that never ends: a limit of time has to.

#[test]
fn first() {}

#[test]
fn for_ever() {
    loop {
        std::thread::park();
    }
}
