//! Compiles `src/freestanding.rs` into a freestanding static executable that the library embeds.
//!
//! Cargo cannot make one crate's binary an input of another on stable (artifact dependencies are unstable),
//! and the launcher needs neither `std` nor any crate: one call of the compiler is the whole build.

use std::env;
use std::path::PathBuf;
use std::process::{Command, exit};

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-env-changed=RUSTC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("launcher");
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"));
    rustc
        .args(["src/freestanding.rs", "--crate-name", "launcher", "--crate-type", "bin", "--edition", "2024"])
        .args(["--target", &target, "-o"])
        .arg(&out)
        .args(["-Copt-level=2", "-Cpanic=abort", "-Clto=fat", "-Ccodegen-units=1", "-Cstrip=symbols"])
        // Position-dependent and static: nothing to relocate at start, and no dynamic loader.
        .args(["-Crelocation-model=static", "-Ctarget-feature=+crt-static"])
        .args([
            "-Clink-arg=-nostartfiles",
            "-Clink-arg=-nostdlib",
            "-Clink-arg=-static",
            "-Clink-arg=-no-pie",
        ])
        .args(["-Clink-arg=-Wl,--build-id=none", "-Clink-arg=-Wl,-z,noexecstack,-z,relro,-z,now"])
        .args(["-Anon_snake_case", "-Cforce-unwind-tables=no"]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={}", linker.to_string_lossy()));
    }
    match rustc.status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            eprintln!("compiling the launcher failed ({status}); it needs a C compiler as linker: {rustc:?}");
            exit(1);
        }
        Err(e) => {
            eprintln!("cannot start the compiler for the launcher: {e}");
            exit(1);
        }
    }
}
