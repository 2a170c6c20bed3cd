//! `hotcell tool new|build|test`: for authors of plugins.

use std::path::{Path, PathBuf};

use hotcell_plugins::Caller;
use hotcell_sandbox::text::counted;
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_tools::author::{self, AuthorError, Cases, Language};
use hotcell_tools::install::manifest;
use hotcell_tools::{Description, LoadError, Manifest, Prepared, Runtime, RuntimeOptions};
use serde_json::json;

use crate::args::Common;
use crate::context::{configuration, current_folder};
use crate::exit::printed;
use crate::quote::for_shell;
use crate::terminal::notes;
use crate::{exit, usage};

/// Exit status when a case does not give the expected result.
const FAILURE_STATUS: u8 = 1;

pub fn report(error: &AuthorError) -> ErrorReport {
    let report = |code| ErrorReport::new(code, error.to_string());
    match error {
        AuthorError::Name { .. } | AuthorError::Exists { .. } => report(Code::InvalidValue).field("NAME"),
        AuthorError::Missing { what, remedy } => {
            ErrorReport::new(Code::InvalidValue, format!("{what} is missing")).hint(remedy.clone())
        }
        AuthorError::Folder { .. } => report(Code::InvalidValue)
            .field("DIR")
            .hint("hotcell tool new NAME makes a folder that has all of it"),
        _ => report(Code::InvalidValue),
    }
}

/// The report of a build: what its own folder lacks is installed there.
pub fn report_of_build(folder: &Path, error: &AuthorError) -> ErrorReport {
    let report = report(error);
    match error {
        AuthorError::Missing { what, remedy } if what.starts_with("componentize") => {
            let folder = for_shell(&folder.to_string_lossy());
            report.hint(format!("install it there: cd {folder} && {remedy}"))
        }
        _ => report,
    }
}

/// A plugin's folder as messages name it, without a `.` in its path.
pub fn folder_of(folder: &Path) -> PathBuf {
    current_folder().join(folder).components().collect()
}

/// Checks that a folder is a plugin's.
///
/// # Errors
/// A report when there is no such folder, or it has no manifest.
pub fn check_folder(folder: &Path) -> Result<(), ErrorReport> {
    if !folder.is_dir() {
        let problem = if folder.exists() { "is a file, and not a plugin's folder" } else { "is not there" };
        return Err(ErrorReport::new(Code::InvalidValue, format!("{} {problem}", folder.display()))
            .field("DIR")
            .hint("hotcell tool new NAME makes a folder to write a plugin in"));
    }
    if !folder.join(manifest::FILE).exists() {
        return Err(report(&AuthorError::Folder { folder: folder.to_owned(), missing: manifest::FILE }));
    }
    Ok(())
}

/// Creates a folder for a new plugin.
pub fn new(common: &Common, folder: &Path, language: Language) -> u8 {
    let folder = folder_of(folder);
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let made = author::create(&folder, &name, language).map_err(|e| report(&e));
    match made {
        Err(report) => usage::fail(&report, common.json),
        Ok(files) => {
            let files: Vec<_> = files.iter().filter_map(|f| f.strip_prefix(&folder).ok()).collect();
            let told = if common.json {
                exit::print_json(&json!({ "folder": folder, "files": files }))
            } else {
                let name = for_shell(&folder.to_string_lossy());
                let next = format!("next: hotcell tool build {name} && hotcell tool test {name}\n");
                let lines: String = files.iter().map(|f| format!("{}\n", folder.join(f).display())).collect();
                exit::print_text(&(lines + &next))
            };
            printed(told, 0)
        }
    }
}

/// Output folder for a plugin's component.
fn out_of(folder: &Path, out: Option<&Path>) -> PathBuf {
    out.map_or_else(|| folder.join("out"), |out| current_folder().join(out))
}

/// Builds a plugin's component.
pub fn build(common: &Common, folder: &Path, compiled: Option<&Path>, out: Option<&Path>) -> u8 {
    let folder = folder_of(folder);
    let compiled = compiled.map(|path| current_folder().join(path));
    let built = check_folder(&folder).and_then(|()| {
        author::finish(&folder, compiled.as_deref(), &out_of(&folder, out))
            .map_err(|error| report_of_build(&folder, &error))
    });
    match built {
        Err(report) => usage::fail(&report, common.json),
        Ok(built) => {
            let told = if common.json {
                exit::print_json(
                    &json!({ "component": built.component, "manifest": built.manifest, "bytes": built.size }),
                )
            } else {
                exit::print_text(&format!("{} ({} bytes)\n", built.component.display(), built.size))
            };
            printed(told, 0)
        }
    }
}

/// A component by its compiled form, which `tool add` and `tool call` take too, and which is made where it is missing. Nothing where
/// this host has no sandbox to compile in, or no room: it is compiled here then.
pub async fn compiled(
    common: &Common,
    runtime: &Runtime,
    wasm: &[u8],
) -> Result<Option<(Description, Prepared)>, ErrorReport> {
    let configuration = configuration(common, None)?;
    let Ok(program) = std::env::current_exe() else { return Ok(None) };
    let Ok(caller) = Caller::new(&configuration, program) else { return Ok(None) };
    let described = caller.hosts().describe(wasm).await;
    let form = caller.hosts().compiled_form(wasm);
    caller.close().await;
    match described {
        Ok(description) => {
            let prepared = form.and_then(|form| runtime.load_compiled(form).ok());
            Ok(prepared.map(|prepared| (description, prepared)))
        }
        Err(LoadError::Host { .. } | LoadError::Compile { .. }) => Ok(None),
        Err(error) => Err(report(&AuthorError::Load(error))),
    }
}

/// Calls a plugin's component with its test cases.
pub async fn test(common: &Common, folder: &Path, out: Option<&Path>) -> Result<u8, ErrorReport> {
    let folder = folder_of(folder);
    let bad = |path: &Path, e: std::io::Error| {
        ErrorReport::new(Code::InvalidValue, format!("{}: {e}", path.display()))
    };
    check_folder(&folder)?;
    let cases = folder.join("tests/cases.toml");
    let text = std::fs::read_to_string(&cases)
        .map_err(|e| bad(&cases, e).hint("cases are calls and what they come to, in TOML"))?;
    let cases = Cases::parse(&text).map_err(|e| report(&e))?;
    let out = out_of(&folder, out);
    let path = folder.join(manifest::FILE);
    let text = std::fs::read_to_string(&path).map_err(|e| bad(&path, e))?;
    let manifest =
        Manifest::parse(&text, &path).map_err(|e| ErrorReport::new(Code::InvalidValue, e.to_string()))?;
    let component = out.join(format!("{}.wasm", manifest.name));
    let wasm = std::fs::read(&component).map_err(|e| {
        bad(&component, e)
            .hint(format!("hotcell tool build {} makes it", for_shell(&folder.to_string_lossy())))
    })?;
    let runtime = Runtime::new(&RuntimeOptions::default())
        .map_err(|e| ErrorReport::new(Code::Internal, e.to_string()))?;
    let scratch = tempfile::tempdir().map_err(|e| bad(&std::env::temp_dir(), e))?;
    let tried = match compiled(common, &runtime, &wasm).await? {
        Some((description, prepared)) => {
            author::run_prepared(&runtime, &description, &prepared, &cases, scratch.path()).await
        }
        None => author::run(&runtime, &wasm, &cases, scratch.path()).await,
    };
    let tried = tried.map_err(|e| report(&e))?;
    let failed = tried.iter().filter(|case| !case.wrong.is_empty()).count();
    let code = if failed == 0 { 0 } else { FAILURE_STATUS };
    if common.json {
        let case = |t: &author::Tried| json!({ "tool": t.tool, "wrong": t.wrong, "wall_us": u64::try_from(t.wall.as_micros()).unwrap_or(u64::MAX) });
        let cases: Vec<_> = tried.iter().map(case).collect();
        return Ok(printed(exit::print_json(&json!({ "cases": cases, "failed": failed })), code));
    }
    let mut text = String::new();
    for (number, case) in (1..).zip(&tried) {
        let word = if case.wrong.is_empty() { "ok" } else { "FAILED" };
        text.push_str(&format!("{word:<7} {number} {} ({} ms)\n", case.tool, case.wall.as_millis()));
        text.extend(case.wrong.iter().map(|line| format!("        {}\n", printable(line))));
    }
    text.push_str(&format!("{}, {failed} failed\n", counted(tried.len(), "case")));
    if tried.is_empty() {
        notes::say("there is no case: it proves nothing");
        return Ok(printed(exit::print_text(&text), 2));
    }
    Ok(printed(exit::print_text(&text), code))
}
