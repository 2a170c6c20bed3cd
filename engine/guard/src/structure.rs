//! Rules in ast-grep's form, matched on a part's tree. Only the user's own packs contain such rules: without
//! one for the part's language nothing is parsed here.

use crate::limits::towers;
use crate::report::PartState;
use ast_grep_core::AstGrep;
use ast_grep_core::tree_sitter::{LanguageExt, StrDoc};
use tree_sitter::{Parser, Tree};

use crate::context::Cx;
use crate::language::Language;
use crate::rules::{Grammar, found};
use crate::syntax::parsed;
use crate::tree::as_compiled;

/// Maximum depth of a tree that is matched: comparing two subtrees recurses.
const MAX_TREE_DEPTH: usize = 20_000;

/// Matches these rules on a part; `state` tells how it was read without them.
pub(crate) fn read(cx: &mut Cx<'_>, language: Language, source: &str, state: PartState) -> PartState {
    let pack = cx.pack;
    if pack.structures.is_empty() {
        return state;
    }
    let path = &cx.path();
    let Some(grammar) = Grammar::of(language, path) else { return state };
    let rules = pack.structures.iter().filter_map(|s| s.matcher(grammar, path).map(|core| (s.rule, core)));
    let rules: Vec<_> = rules.collect();
    if rules.is_empty() {
        return state;
    }
    if source.len() > cx.limits.parse_bytes {
        return unread(cx, "source too large to parse");
    }
    if towers(source) {
        return unread(cx, "brackets nested too deeply");
    }
    let text = as_compiled(language, source);
    let mut parser = Parser::new();
    let set = parser.set_language(&grammar.get_ts_language());
    let Some(tree) = set.ok().and_then(|()| parsed(cx, &mut parser, &text)) else {
        return unread(cx, "the parser gave up");
    };
    if is_too_deep(cx, &tree) {
        return unread(cx, "nested too deeply for rules over trees");
    }
    let broken = tree.root_node().has_error();
    let root = AstGrep::doc(StrDoc { src: text.into_owned(), lang: grammar, tree });
    for node in root.root().dfs() {
        if !cx.tick() || cx.late() {
            break;
        }
        for (rule, core) in &rules {
            if let Some(range) = found(core, &node) {
                cx.structural(*rule, (range.start, range.end));
            }
        }
    }
    if broken && state == PartState::Parsed { PartState::Recovered } else { state }
}

fn unread(cx: &mut Cx<'_>, why: &str) -> PartState {
    cx.not_read(why);
    PartState::Skipped(why.to_owned())
}

fn is_too_deep(cx: &mut Cx<'_>, tree: &Tree) -> bool {
    let mut cursor = tree.walk();
    let mut depth = 0usize;
    while cx.tick() {
        if cursor.goto_first_child() {
            depth += 1;
            if depth > MAX_TREE_DEPTH {
                return true;
            }
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return false;
            }
            depth -= 1;
        }
    }
    false
}
