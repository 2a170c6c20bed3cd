//! Functions of `wit/code-analyzer.wit`.

use std::path::Path;

use crate::analyze;
use crate::language;

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::hotcell::code_analyzer::code_analyzer::{
    FileReport, Function, Guest, Import, Language, Report, TypeDefinition,
};

/// Maximum size of a file to parse, in bytes.
const LONGEST: u64 = 1 << 20;
/// Maximum number of unread files in a report.
const MOST_UNREAD: usize = 100;

struct Plugin;
export!(Plugin);

fn report(path: String, source: &str, language: language::Language) -> Result<FileReport, String> {
    let found = analyze::analyze(source, language)?;
    let functions = found.functions.into_iter().map(|f| Function {
        name: f.name,
        line: f.line,
        end_line: f.end_line,
        parameters: f.parameters,
        complexity: f.complexity,
        nesting: f.nesting,
    });
    Ok(FileReport {
        path,
        language: match language {
            language::Language::C => Language::C,
            language::Language::Go => Language::Go,
            language::Language::Java => Language::Java,
            language::Language::Javascript => Language::Javascript,
            language::Language::Python => Language::Python,
            language::Language::Rust => Language::Rust,
            language::Language::Typescript => Language::Typescript,
            language::Language::Tsx => Language::Tsx,
        },
        lines: found.lines,
        code_lines: found.code_lines,
        comment_lines: found.comment_lines,
        syntax_errors: found.syntax_errors,
        functions: functions.collect(),
        types: found.types.into_iter().map(|(name, line)| TypeDefinition { name, line }).collect(),
        imports: found.imports.into_iter().map(|(module, line)| Import { module, line }).collect(),
    })
}

impl Guest for Plugin {
    fn analyze_text(content: String, language: Language) -> Result<FileReport, String> {
        let language = match language {
            Language::C => language::Language::C,
            Language::Go => language::Language::Go,
            Language::Java => language::Language::Java,
            Language::Javascript => language::Language::Javascript,
            Language::Python => language::Language::Python,
            Language::Rust => language::Language::Rust,
            Language::Typescript => language::Language::Typescript,
            Language::Tsx => language::Language::Tsx,
        };
        report("text".to_owned(), &content, language)
    }

    fn analyze_path(path: Option<String>, limit: Option<u32>) -> Result<Report, String> {
        let path = folders::path(&path.unwrap_or_default())?;
        let meta = std::fs::metadata(&path).map_err(|e| folders::failed(&path, &e))?;
        let top = Path::new(&path);
        let limit = limit.unwrap_or(100).min(1000) as usize;
        let mut all = Report { files: Vec::new(), more: false, unread: Vec::new() };
        let one = |name: String, full: &Path, all: &mut Report| {
            let Some(language) = language::Language::of(&name) else { return };
            let text = full.to_str().ok_or_else(|| "its name is no text".to_owned());
            let text = text.and_then(|full| folders::read_text(full, LONGEST));
            match text.and_then(|text| report(name.clone(), &text, language)) {
                Ok(report) => all.files.push(report),
                Err(why) if all.unread.len() < MOST_UNREAD => all.unread.push(format!("{name}: {why}")),
                Err(_) => {}
            }
        };
        if meta.is_dir() {
            let mut visit = |entry: folders::Entry, full: &Path| {
                if entry.size.is_some() && language::Language::of(&entry.path).is_some() {
                    all.more = all.files.len() == limit;
                    if !all.more {
                        one(entry.path, full, &mut all);
                    }
                }
                !all.more
            };
            folders::walk(top, "", 64, &mut visit, &|name| !name.starts_with('.') && name != "node_modules")?;
            return Ok(all);
        }
        let name = top.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if language::Language::of(&name).is_none() {
            return Err(format!("{path}: its language is not known by its name; use analyze-text"));
        }
        one(name, top, &mut all);
        match all.unread.pop() {
            Some(why) => Err(why),
            None => Ok(all),
        }
    }
}
