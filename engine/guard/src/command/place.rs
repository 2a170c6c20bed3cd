//! Resolves a path of a command: into the working folder, through links, or out of it.

use std::path::{Component, Path, PathBuf};

/// Working folder inside a sandbox.
const PROJECT: &str = "/home/sandbox/project";
/// Maximum number of links followed for one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Entry at a path of the working folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A link and its target.
    Link(PathBuf),
}

/// The working folder, as far as names and links are concerned.
pub trait Files {
    /// Entry at a relative path without `.` and `..`; `None` when nothing is there. Links are not followed.
    fn node(&self, path: &Path) -> Option<Node>;
    /// First few hundred bytes of a file; empty when it cannot be read.
    fn head(&self, path: &Path) -> Vec<u8>;
}

/// A command without a working folder.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn node(&self, _: &Path) -> Option<Node> {
        None
    }
    fn head(&self, _: &Path) -> Vec<u8> {
        Vec::new()
    }
}

/// An unknown folder: every path may be a file.
pub(super) struct AnyFiles;

impl Files for AnyFiles {
    fn node(&self, _: &Path) -> Option<Node> {
        Some(Node::File)
    }
    fn head(&self, _: &Path) -> Vec<u8> {
        Vec::new()
    }
}

/// Target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// A file or a folder of the working folder, by its real path there.
    Inside(String, Node),
    /// This absolute path outside.
    Outside(String),
    /// Nothing.
    Nowhere,
    /// A loop of links.
    Circle,
}

/// True when a path is an alias of standard input.
pub(super) fn is_stdin(path: &str) -> bool {
    // From any folder: a path with enough `..` is absolute.
    let mut parts: Vec<&str> = Vec::new();
    let mut leads_up = false;
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => leads_up |= parts.pop().is_none(),
            name => parts.push(name),
        }
    }
    (path.starts_with('/') || leads_up)
        && match parts.as_slice() {
            ["dev", "stdin"] | ["dev", "fd", "0"] => true,
            ["proc", rest @ ..] => matches!(rest, [.., "fd", "0"]),
            _ => false,
        }
}

/// Resolves a path from the working folder.
pub(super) fn resolve(files: &dyn Files, path: &str) -> At {
    let mut todo: Vec<String> = steps(path);
    todo.reverse();
    // Absolute once it has left the working folder.
    let mut outside: Option<PathBuf> = path.starts_with('/').then(|| PathBuf::from("/"));
    let mut inside = PathBuf::new();
    let mut links = 0;
    while let Some(step) = todo.pop() {
        if let Some(absolute) = &mut outside {
            match step.as_str() {
                ".." => {
                    absolute.pop();
                }
                name => absolute.push(name),
            }
            if let Some(rest) = within(absolute) {
                inside = rest;
                outside = None;
            }
            continue;
        }
        if step == ".." {
            if !inside.pop() {
                outside = Path::new(PROJECT).parent().map(Path::to_owned);
            }
            continue;
        }
        let next = inside.join(&step);
        match files.node(&next) {
            Some(Node::Link(to)) => {
                links += 1;
                if links > MAX_LINKS {
                    return At::Circle;
                }
                let Some(text) = to.to_str() else { return At::Nowhere };
                if text.starts_with('/') {
                    outside = Some(PathBuf::from("/"));
                }
                let mut more = steps(text);
                more.reverse();
                todo.extend(more);
            }
            Some(_) => inside = next,
            None => return At::Nowhere,
        }
    }
    match outside {
        Some(absolute) => At::Outside(absolute.to_string_lossy().into_owned()),
        None if inside == Path::new("") => At::Inside(String::new(), Node::Folder),
        None => match files.node(&inside) {
            Some(node) => At::Inside(inside.to_string_lossy().into_owned(), node),
            None => At::Nowhere,
        },
    }
}

fn steps(path: &str) -> Vec<String> {
    let parts = Path::new(path).components();
    parts
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            Component::ParentDir => Some("..".to_owned()),
            _ => None,
        })
        .collect()
}

/// Part of an absolute path below the working folder, by any of its names.
fn within(absolute: &Path) -> Option<PathBuf> {
    let text = absolute.to_str()?;
    if text == PROJECT {
        return Some(PathBuf::new());
    }
    let parts: Vec<&str> = text.split('/').skip(1).collect();
    match parts.as_slice() {
        ["proc", .., "cwd"] => Some(PathBuf::new()),
        ["proc", .., "root", "home", "sandbox", "project"] => Some(PathBuf::new()),
        _ => None,
    }
}
