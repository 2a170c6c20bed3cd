//! Compiles the system call filters that nearly every sandbox has: reading and compiling their rules at each start takes as long as a fifth of a run.

use std::path::PathBuf;

#[path = "src/seccomp/mod.rs"]
// Its expectations of lints hold for the crate.
#[allow(dead_code, unused_imports, unfulfilled_lint_expectations)]
mod seccomp;

use seccomp::{Arch, Options};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=filters");
    println!("cargo::rerun-if-changed=src/seccomp");
    let arch = match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => Arch::X86_64,
        Ok("aarch64") => Arch::Aarch64,
        other => panic!("there are no filters for the architecture {other:?}"),
    };
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("OUT_DIR is set by cargo"));
    let mut list = String::from("[\n");
    for number in 0..Options::USUAL {
        let name = format!("program-{number}");
        let filter = seccomp::program(arch, Options::of_usual(number));
        std::fs::write(folder.join(&name), filter.as_bytes()).expect("OUT_DIR is writable");
        list += &format!("    include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}\")),\n");
    }
    list += "]\n";
    std::fs::write(folder.join("programs.rs"), list).expect("OUT_DIR is writable");
    std::fs::write(folder.join("init"), seccomp::init(arch).as_bytes()).expect("OUT_DIR is writable");
}
