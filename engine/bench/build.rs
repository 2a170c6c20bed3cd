//! Compiles the C programs that are measured beside sandboxes; in C, so that no runtime is measured. Without
//! a compiler and the kernel's headers an empty file takes a program's place, and the rows that need it say
//! so.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=programs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for name in ["floor", "probe"] {
        let program = out.join(name);
        let source = Path::new("programs").join(format!("{name}.c"));
        // Static like hotcell's launcher, so that a fork copies fewer mappings. Not every host has the static
        // library.
        if !compile(&source, &program, &["-static"]) && !compile(&source, &program, &[]) {
            println!(
                "cargo::warning={} cannot be compiled (are the kernel's headers there?): hotcell bench will lack it",
                source.display()
            );
            fs::write(&program, b"").expect("the build's own folder can be written");
        }
    }
}

fn compile(source: &Path, program: &Path, more: &[&str]) -> bool {
    // The compiler for the target, also when cross-compiling.
    let Ok(compiler) = cc::Build::new().opt_level(2).cargo_warnings(false).try_get_compiler() else {
        return false;
    };
    let status = compiler
        .to_command()
        .args(["-std=gnu17", "-O2", "-s", "-Wall", "-Wextra", "-o"])
        .arg(program)
        .args(more)
        .arg(source)
        .status();
    status.is_ok_and(|status| status.success())
}
