//! Compiles the hostile C programs into one static executable that the library embeds, so that a host needs
//! no compiler to test itself.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=programs");
    println!("cargo::rerun-if-env-changed=CC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let program = out.join("attack");
    println!("cargo::rustc-env=HOTCELL_ATTACK_PROGRAM={}", program.display());
    if let Err(why) = compile(&program) {
        // The rest of hotcell works without the programs; the parts that need them refuse with this message.
        let lacks = format!(
            "{}; a C compiler (CC, else cc) and a static C library are needed, on Debian libc6-dev",
            why.trim()
        );
        for line in lacks.lines() {
            println!("cargo::warning=no hostile programs for `hotcell doctor --attack`: {line}");
        }
        println!("cargo::rustc-env=HOTCELL_ATTACK_LACKS={}", lacks.lines().next().unwrap_or_default());
        fs::write(&program, "").expect("OUT_DIR can be written");
    }
}

fn compile(program: &PathBuf) -> Result<(), String> {
    // There is no standard name for a cross compiler.
    if env::var_os("CC").is_none() && env::var_os("TARGET") != env::var_os("HOST") {
        return Err("for another machine CC must name the compiler".to_owned());
    }
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut sources: Vec<PathBuf> = fs::read_dir("programs")
        .map_err(|e| format!("programs: {e}"))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "c"))
        .collect();
    sources.sort();
    let output = Command::new(&compiler)
        .args(["-O1", "-static", "-no-pie", "-s", "-Wall", "-Wextra", "-o"])
        .arg(program)
        .args(&sources)
        .arg("-lpthread")
        .output()
        .map_err(|e| format!("{} cannot be started: {e}", compiler.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|l| l.contains("error") || l.contains("cannot find")).unwrap_or_default();
    Err(format!("{} fails ({}): {first}", compiler.display(), output.status))
}
