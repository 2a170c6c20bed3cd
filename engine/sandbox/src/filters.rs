//! System call filters as the kernel takes them: those that nearly every sandbox has were compiled when this crate was built, others are
//! compiled when they are needed.

use crate::seccomp::{self, Arch, Options};

/// Filters of the usual sets of options, by their numbers.
static PROGRAMS: [&[u8]; Options::USUAL] = include!(concat!(env!("OUT_DIR"), "/programs.rs"));
/// Filter of process 1.
static INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init"));

/// The filter for untrusted programs: [`seccomp::program()`] in the kernel's form.
pub fn program(options: Options) -> Vec<u8> {
    match options.usual() {
        Some(number) => PROGRAMS[number].to_vec(),
        None => seccomp::program(Arch::HOST, options).as_bytes(),
    }
}

/// The filter for process 1 of a sandbox: [`seccomp::init()`] in the kernel's form.
pub fn init() -> Vec<u8> {
    INIT.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_made_at_build_time_are_those_of_the_rules() {
        for number in 0..Options::USUAL {
            let options = Options::of_usual(number);
            assert_eq!(options.usual(), Some(number));
            assert_eq!(program(options), seccomp::program(Arch::HOST, options).as_bytes(), "{options:?}");
        }
        assert_eq!(init(), seccomp::init(Arch::HOST).as_bytes());
        let usual = Options::of_usual(0);
        for unusual in [
            Options { namespaces: false, ..usual },
            Options { plain: true, ..usual },
            Options { truncates: true, ..usual },
        ] {
            assert_eq!(unusual.usual(), None);
            assert_eq!(program(unusual), seccomp::program(Arch::HOST, unusual).as_bytes());
        }
    }
}
