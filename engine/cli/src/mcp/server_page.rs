//! Rows of `hotcell mcp servers`.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use hotcell_state::report::printable;

use super::pins;
use super::servers::{Server, server};

/// One server, by its folder. A lenient row says why its files cannot be read: one with broken files hides no other one, and can be removed.
///
/// # Errors
/// When a file cannot be read, unless it is lenient.
pub fn row(folder: &Path, name: &str, is_lenient: bool) -> io::Result<Server> {
    match server(folder, name) {
        Err(error) if is_lenient => Ok(Server {
            name: name.to_owned(),
            instances: 1,
            problem: Some(error.to_string()),
            ..Server::default()
        }),
        read => read,
    }
}

/// A server for a person; whole with what is held.
pub fn page(server: &Server, is_whole: bool) -> String {
    let names = |names: &[String]| names.iter().map(|name| printable(name)).collect::<Vec<_>>().join(" ");
    let mut text = format!("{}\n", server.name);
    if let Some(problem) = &server.problem {
        let name = &server.name;
        let _ = writeln!(
            text,
            "  UNREADABLE {}; hotcell mcp servers remove {name} forgets it",
            printable(problem)
        );
        return text;
    }
    if !server.command.is_empty() {
        let words = server.options.iter().map(String::as_str).chain(["--"]);
        let words: Vec<_> = words.chain(server.command.iter().map(String::as_str)).collect();
        let _ = writeln!(text, "  started   hotcell mcp wrap {}", printable(&words.join(" ")));
    }
    if let Some(url) = &server.url {
        let _ = writeln!(text, "  at        {}", printable(url));
    }
    if server.instances > 1 {
        let _ = writeln!(text, "  instances {}", server.instances);
    }
    if !server.grants.is_empty() {
        let _ = writeln!(text, "  granted   {}", names(&server.grants));
    }
    for package in &server.packages {
        let _ = writeln!(text, "  package   {}", printable(package));
    }
    let _ = match server.accepted.len() {
        0 if server.held.is_empty() => {
            let name = printable(&server.name);
            writeln!(text, "  accepted  nothing yet; hotcell mcp servers try {name} lists its tools")
        }
        number => writeln!(text, "  accepted  {number}: {}", names(&server.accepted)),
    };
    if !server.held.is_empty() {
        let _ = writeln!(text, "  HELD      {}: {}", server.held.len(), names(&server.held));
    }
    if is_whole {
        for (name, tool) in &server.offered {
            text.push_str(&pins::difference(name, server.before.get(name), tool));
        }
        if !server.held.is_empty() {
            let _ = writeln!(
                text,
                "  to accept them as they are: hotcell mcp servers accept {} --shown {}",
                server.name, server.shown
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_broken_files_has_a_row_that_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["tools.json", "served.json", "words.json", "offered.json", "entry.json", "grants.json"] {
            let path = folder.path().join(file);
            std::fs::write(&path, "{").unwrap();
            assert!(row(folder.path(), "s", false).is_err(), "{file}");
            let text = page(&row(folder.path(), "s", true).unwrap(), false);
            assert!(text.starts_with("s\n  UNREADABLE ") && text.contains(file), "{text}");
            assert!(text.contains("remove s"), "{text}");
            std::fs::remove_file(path).unwrap();
        }
        assert!(row(folder.path(), "s", false).unwrap().problem.is_none());
    }
}
