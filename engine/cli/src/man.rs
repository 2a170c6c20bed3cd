//! `hotcell man`: manual pages from the definitions of the command line.

use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;
use hotcell_state::report::{Code, ErrorReport};

use crate::args::Cli;
use crate::unknown_command::unknown_command;
use crate::{exit, usage};

/// Runs `hotcell man`; returns its exit status.
pub fn man(folder: Option<&Path>, command: &[String], json: bool) -> u8 {
    let done = match folder {
        Some(folder) => write(folder).map(|()| 0),
        None => page_of(command).map(|page| exit::printed(exit::print_text(&page), 0)),
    };
    done.unwrap_or_else(|report| usage::fail(&report, json))
}

/// Every page, by its file name (`hotcell-run.1`), the one of hotcell first.
fn pages() -> Vec<(String, String)> {
    fn add(command: &clap::Command, all: &mut Vec<(String, String)>) {
        let man = man_of(command);
        all.push((man.get_filename(), rendered(&man)));
        command.get_subcommands().filter(|sub| !sub.is_hide_set()).for_each(|sub| add(sub, all));
    }
    let mut all = Vec::new();
    add(&built(), &mut all);
    all
}

/// The definitions with the options that are common to all commands.
fn built() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

fn man_of(command: &clap::Command) -> Man {
    let source = format!("hotcell {}", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).manual("hotcell")
}

/// Text of a page, in ASCII: viewers do not agree on the encoding of other characters, but all know `\[u2026]`.
fn rendered(man: &Man) -> String {
    let mut text = Vec::new();
    // Writing into memory does not fail.
    let _ = man.render(&mut text);
    let text = String::from_utf8_lossy(&text);
    text.chars().fold(String::new(), |mut page, c| {
        if c.is_ascii() {
            page.push(c);
        } else {
            page.push_str(&format!("\\[u{:04X}]", u32::from(c)));
        }
        page
    })
}

/// The page of a command, such as `runs show`; of hotcell for no words.
fn page_of(words: &[String]) -> Result<String, ErrorReport> {
    let whole = built();
    let mut at = whole.clone();
    for (number, word) in words.iter().enumerate() {
        let next = at.find_subcommand(word).cloned();
        at = next.ok_or_else(|| unknown_command(&whole, &words[..number].join(" "), word))?;
    }
    Ok(rendered(&man_of(&at)))
}

/// Writes every page into a folder, which is created.
fn write(folder: &Path) -> Result<(), ErrorReport> {
    let failed = |path: &Path, why: std::io::Error| {
        ErrorReport::new(Code::InvalidValue, format!("{} cannot be written: {why}", path.display()))
            .field("--dir")
            .hint("name a folder that you may write")
    };
    std::fs::create_dir_all(folder).map_err(|why| failed(folder, why))?;
    for (name, text) in pages() {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|why| failed(&path, why))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_options() {
        fn check(command: &clap::Command, path: &str, pages: &[(String, String)], count: &mut usize) {
            let (_, text) = pages.iter().find(|(name, _)| *name == format!("{path}.1")).expect(path);
            for long in command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|a| a.get_long())
            {
                assert!(text.contains(&long.replace('-', "\\-")), "{path}: --{long}");
            }
            assert!(text.is_ascii(), "{path}");
            *count += 1;
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                check(sub, &format!("{path}-{}", sub.get_name()), pages, count);
            }
        }
        let (pages, mut count) = (pages(), 0);
        check(&built(), "hotcell", &pages, &mut count);
        assert_eq!(pages.len(), count);
        assert!(count > 50, "{count}");
    }

    #[test]
    fn one_page_is_found_by_its_words() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (text, title) in [("", "hotcell"), ("run", "hotcell-run"), ("runs show", "hotcell-runs-show")] {
            let page = page_of(&words(text)).unwrap();
            assert!(page.contains(&format!(".TH {title} ")), "{text}: {page}");
        }
        let report = page_of(&words("runs shw")).unwrap_err().to_string();
        assert!(report.contains("did you mean show"), "{report}");
        assert!(page_of(&words("run x")).is_err());
    }
}
