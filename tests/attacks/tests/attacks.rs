//! One named test for each attack and user; see the README beside `Cargo.toml`.

fn main() -> std::process::ExitCode {
    match hotcell_attacks::harness::main() {
        0 => std::process::ExitCode::SUCCESS,
        _ => std::process::ExitCode::FAILURE,
    }
}
