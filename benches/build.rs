//! Compiles the floor and the probe with the host's C compiler: both are C so that no runtime is measured.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=floor");
    println!("cargo::rerun-if-env-changed=CC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for name in ["floor", "probe"] {
        let program = out.join(name);
        let source = Path::new("floor").join(format!("{name}.c"));
        // Static, as hotcell's launcher is: a fork copies fewer mappings. Not every host has the static library.
        if !compile(&source, &program, &["-static"]) && !compile(&source, &program, &[]) {
            eprintln!(
                "{} cannot be compiled; a C compiler and the C library's headers are needed",
                source.display()
            );
            exit(1);
        }
        assert!(fs::metadata(&program).is_ok(), "the compiler left no {name}");
        println!("cargo::rustc-env=HOTCELL_{}={}", name.to_uppercase(), program.display());
    }
}

fn compile(source: &Path, program: &Path, more: &[&str]) -> bool {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(compiler)
        .args(["-std=gnu17", "-O2", "-Wall", "-Wextra", "-o"])
        .arg(program)
        .args(more)
        .arg(source)
        .status();
    status.is_ok_and(|s| s.success())
}
