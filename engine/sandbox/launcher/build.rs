//! Compiles `src/freestanding.rs` into a freestanding static executable, and `src/primer.rs` into a shared
//! library that depends only on a C library; the library crate embeds both.
//!
//! On stable, Cargo cannot make one crate's binary an input of another (artifact dependencies are unstable).
//! Neither needs `std` or any crate, so one call of the compiler for each is the whole build.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-env-changed=RUSTC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    compile(
        "launcher",
        "src/freestanding.rs",
        &out.join("launcher"),
        &[
            "--crate-type=bin",
            // Position-dependent and static: nothing to relocate at start, and no dynamic loader.
            "-Crelocation-model=static",
            "-Ctarget-feature=+crt-static",
            "-Clink-arg=-nostartfiles",
            "-Clink-arg=-nostdlib",
            "-Clink-arg=-static",
            "-Clink-arg=-no-pie",
        ],
    );
    compile(
        "primer",
        "src/primer.rs",
        &out.join("primer"),
        &["--crate-type=cdylib", "-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib", "-Clink-arg=-lc"],
    );
}

fn compile(name: &str, source: &str, out: &Path, how: &[&str]) {
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"));
    rustc
        .args([source, "--crate-name", name, "--edition", "2024", "--target", &target, "-o"])
        .arg(out)
        .args(["-Copt-level=2", "-Cpanic=abort", "-Clto=fat", "-Ccodegen-units=1", "-Cstrip=symbols"])
        .args(how)
        .args(["-Clink-arg=-Wl,--build-id=none", "-Clink-arg=-Wl,-z,noexecstack,-z,relro,-z,now"])
        .args(["-Anon_snake_case", "-Cforce-unwind-tables=no"]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={}", linker.to_string_lossy()));
    }
    match rustc.status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            eprintln!("compiling {source} failed ({status}); it needs a C compiler as linker: {rustc:?}");
            exit(1);
        }
        Err(e) => {
            eprintln!("cannot start the compiler for {source}: {e}");
            exit(1);
        }
    }
}
