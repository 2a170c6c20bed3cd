//! Function of `wit/repo-map.wit`.

use std::path::Path;

use crate::{chunks, names, tree};

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::hotcell::repo_map::repo_map::{Chunk, FileNode, Guest, Kind, Repository};

/// Maximum number of nodes in the answer: more would be too long to read.
const MOST_NODES: usize = 5000;

struct Plugin;
export!(Plugin);

impl Guest for Plugin {
    fn get(
        path: Option<String>,
        depth: Option<u32>,
        include_tests: Option<bool>,
        context_window: Option<u32>,
    ) -> Result<Repository, String> {
        let top = folders::path(&path.unwrap_or_default())?;
        let meta = std::fs::metadata(&top).map_err(|e| folders::failed(&top, &e))?;
        if !meta.is_dir() {
            return Err(format!("{top} is no folder"));
        }
        let window = u64::from(context_window.unwrap_or(32_000));
        if !(1000..=1_000_000).contains(&window) {
            return Err(format!("context-window is {window}; it may be from 1000 to 1000000"));
        }
        let tree = tree::read(Path::new(&top), include_tests.unwrap_or(false))?;
        let mut nodes = tree::structure(&tree.files, depth.unwrap_or(5));
        let cut = tree.cut || nodes.len() > MOST_NODES;
        nodes.truncate(MOST_NODES);
        let structure = nodes.into_iter().map(|(path, folder, sums)| FileNode {
            kind: if folder { Kind::Folder } else { Kind::File },
            language: if folder { None } else { names::language(&path).map(str::to_owned) },
            path,
            files: sums.files,
            size: sums.size,
            tokens_estimated: sums.tokens,
        });
        let all = tree.files.iter().map(|(path, sums)| (path.as_str(), sums.tokens));
        let chunks = chunks::chunks(all, window).map(|all| {
            all.into_iter().map(|c| Chunk { files: c.files, tokens_estimated: c.tokens }).collect()
        });
        Ok(Repository {
            structure: structure.collect(),
            total_files: tree.files.len() as u32,
            total_tokens_estimated: tree.files.values().map(|sums| sums.tokens).sum(),
            chunks,
            tests_left_out: tree.tests_left_out,
            cut,
        })
    }
}
