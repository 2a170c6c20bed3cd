//! Walks a syntax tree once.

use std::collections::BTreeSet;

use tree_sitter::{Node, Parser};

use crate::language::{Kinds, Language};

/// Maximum number of functions, of types and of imports in the report of one file.
const MOST: usize = 1000;

/// A function or a method.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: u32,
    pub(crate) end_line: u32,
    pub(crate) parameters: u32,
    pub(crate) complexity: u32,
    pub(crate) nesting: u32,
}

/// Contents of a file. Types and imports have their lines.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) lines: u32,
    pub(crate) code_lines: u32,
    pub(crate) comment_lines: u32,
    pub(crate) syntax_errors: u32,
    pub(crate) functions: Vec<Function>,
    pub(crate) types: Vec<(String, u32)>,
    pub(crate) imports: Vec<(String, u32)>,
}

/// Parses and measures source.
pub(crate) fn analyze(source: &str, language: Language) -> Result<Report, String> {
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).map_err(|e| format!("the grammar cannot be used: {e}"))?;
    let tree = parser.parse(source, None).ok_or("it cannot be parsed")?;
    let mut walk = Walk {
        source,
        kinds: language.kinds(),
        report: Report { lines: source.lines().count() as u32, ..Report::default() },
        code: BTreeSet::new(),
        comments: BTreeSet::new(),
        names: Vec::new(),
        open: Vec::new(),
    };
    // Without recursion: a hostile file can make the tree as deep as it likes.
    let mut cursor = tree.walk();
    // `Node::parent` searches from the root each time.
    let mut around: Vec<Node<'_>> = Vec::new();
    'all: loop {
        let node = cursor.node();
        walk.enter(node, around.last().copied());
        if cursor.goto_first_child() {
            around.push(node);
            continue;
        }
        loop {
            walk.leave(cursor.node(), around.last().copied());
            if cursor.goto_next_sibling() {
                break;
            }
            if !cursor.goto_parent() {
                break 'all;
            }
            around.pop();
        }
    }
    let Walk { mut report, code, comments, .. } = walk;
    report.code_lines = code.len() as u32;
    report.comment_lines = comments.len() as u32;
    report.functions.sort_by_key(|function| function.line);
    report.functions.truncate(MOST);
    report.types.truncate(MOST);
    report.imports.truncate(MOST);
    Ok(report)
}

/// A function whose body is being walked.
struct Open {
    node: usize,
    function: Function,
    depth: u32,
}

struct Walk<'a> {
    source: &'a str,
    kinds: &'static Kinds,
    report: Report,
    code: BTreeSet<usize>,
    comments: BTreeSet<usize>,
    /// Names of the enclosing functions and types, with their nodes.
    names: Vec<(usize, String)>,
    open: Vec<Open>,
}

impl Walk<'_> {
    fn enter(&mut self, node: Node<'_>, parent: Option<Node<'_>>) {
        let kind = node.kind();
        if node.is_error() || node.is_missing() {
            self.report.syntax_errors += 1;
        }
        let lines = node.start_position().row..=node.end_position().row;
        if kind.contains("comment") {
            self.comments.extend(lines);
            return;
        }
        if node.child_count() == 0 && node.start_byte() < node.end_byte() {
            self.code.extend(lines);
        }
        if !node.is_named() {
            // `a && b` and similar, in the languages that have no node of their own for it.
            if matches!(kind, "&&" | "||" | "??") && parent.is_some_and(|p| p.kind() == "binary_expression") {
                self.decide();
            }
            return;
        }
        if self.kinds.functions.contains(&kind) {
            self.function(node, parent);
        } else if self.kinds.types.contains(&kind) {
            // `struct x y` uses a type, but does not define it.
            if !kind.ends_with("_specifier") || node.child_by_field_name("body").is_some() {
                if let Some(name) = node.child_by_field_name("name") {
                    let name = self.text(name);
                    self.report.types.push((name.clone(), line(node)));
                    self.names.push((node.id(), name));
                }
            }
        } else if kind == "impl_item" {
            if let Some(name) = node.child_by_field_name("type") {
                self.names.push((node.id(), self.text(name)));
            }
        } else if let Some((_, field)) = self.kinds.imports.iter().find(|(import, _)| *import == kind) {
            self.import(node, field);
        } else if kind == "call_expression" {
            self.require(node);
        }
        // The default case of a switch is not a decision.
        if self.kinds.decisions.contains(&kind) && !self.text_is(node, "default") {
            self.decide();
        }
        let nests = self.nests(node, parent);
        if let Some(open) = self.open.last_mut().filter(|_| nests) {
            open.depth += 1;
            open.function.nesting = open.function.nesting.max(open.depth);
        }
    }

    fn leave(&mut self, node: Node<'_>, parent: Option<Node<'_>>) {
        if self.names.last().is_some_and(|(id, _)| *id == node.id()) {
            self.names.pop();
        }
        if self.open.last().is_some_and(|open| open.node == node.id()) {
            if let Some(open) = self.open.pop() {
                self.report.functions.push(open.function);
            }
            return;
        }
        let nests = self.nests(node, parent);
        if let Some(open) = self.open.last_mut().filter(|_| nests) {
            open.depth -= 1;
        }
    }

    /// Whether code in this node is nested deeper: `else if` continues a chain and does not nest.
    fn nests(&self, node: Node<'_>, parent: Option<Node<'_>>) -> bool {
        let kind = node.kind();
        let goes_on = || {
            parent.is_some_and(|p| p.kind() == "else_clause" || p.kind() == kind && kind == "if_statement")
        };
        node.is_named() && self.kinds.nests.contains(&kind) && !goes_on()
    }

    fn decide(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.function.complexity += 1;
        }
    }

    fn function(&mut self, node: Node<'_>, parent: Option<Node<'_>>) {
        let own = self.name(node, parent).unwrap_or_else(|| "(anonymous)".to_owned());
        let around: Vec<&str> = self.names.iter().map(|(_, name)| name.as_str()).collect();
        let name = if around.is_empty() { own.clone() } else { format!("{}.{own}", around.join(".")) };
        self.names.push((node.id(), own));
        let function = Function {
            name,
            line: line(node),
            end_line: node.end_position().row as u32 + 1,
            parameters: parameters(node),
            complexity: 1,
            nesting: 0,
        };
        self.open.push(Open { node: node.id(), function, depth: 0 });
    }

    /// A function's name: its own, or that of the variable or field it is assigned to.
    fn name(&self, node: Node<'_>, parent: Option<Node<'_>>) -> Option<String> {
        if let Some(name) = node.child_by_field_name("name") {
            return Some(self.text(name));
        }
        // In C, pointers and arrays surround the name.
        let mut declarator = node.child_by_field_name("declarator");
        while let Some(inner) = declarator {
            if inner.kind() == "identifier" {
                return Some(self.text(inner));
            }
            declarator = inner.child_by_field_name("declarator");
        }
        let parent = parent?;
        let field = match parent.kind() {
            "variable_declarator" | "public_field_definition" => "name",
            "pair" => "key",
            "field_definition" => "property",
            "assignment_expression" => "left",
            _ => return None,
        };
        parent.child_by_field_name(field).map(|name| self.text(name))
    }

    fn import(&mut self, node: Node<'_>, field: &str) {
        let mut cursor = node.walk();
        let mut found: Vec<String> = Vec::new();
        if field.is_empty() {
            let text = self.text(node);
            let text = text.trim_end_matches(';').trim_start_matches("import ").trim_start_matches("from ");
            found.push(
                text.split(" import").next().unwrap_or(text).trim_start_matches("static ").trim().to_owned(),
            );
        }
        for child in node.children_by_field_name(field, &mut cursor).filter(|_| !field.is_empty()) {
            let name = child
                .child_by_field_name("name")
                .filter(|_| child.kind() == "aliased_import")
                .unwrap_or(child);
            found.push(unquoted(&self.text(name)));
        }
        self.report.imports.extend(found.into_iter().map(|module| (module, line(node))));
    }

    /// `require("x")` in JavaScript.
    fn require(&mut self, node: Node<'_>) {
        let called = node.child_by_field_name("function").is_some_and(|f| self.text_is(f, "require"));
        let argument = node
            .child_by_field_name("arguments")
            .and_then(|a| a.named_child(0))
            .filter(|a| a.kind() == "string");
        if let (true, Some(argument)) = (called, argument) {
            self.report.imports.push((unquoted(&self.text(argument)), line(node)));
        }
    }

    fn text(&self, node: Node<'_>) -> String {
        let text = self.source.get(node.byte_range()).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
    }

    fn text_is(&self, node: Node<'_>, begin: &str) -> bool {
        self.source.get(node.byte_range()).is_some_and(|text| text.starts_with(begin))
    }
}

fn line(node: Node<'_>) -> u32 {
    node.start_position().row as u32 + 1
}

/// Number of parameters of a function.
fn parameters(node: Node<'_>) -> u32 {
    if node.child_by_field_name("parameter").is_some() {
        return 1;
    }
    let mut declarator = Some(node);
    let list = loop {
        let Some(inner) = declarator else { return 0 };
        match inner.child_by_field_name("parameters") {
            Some(list) => break list,
            None => declarator = inner.child_by_field_name("declarator"),
        }
    };
    let mut cursor = list.walk();
    let named = list.named_children(&mut cursor).filter(|child| !child.is_extra());
    named
        .map(|parameter| match parameter.kind() {
            // Go: `a, b int`.
            "parameter_declaration" => {
                let mut cursor = parameter.walk();
                (parameter.children_by_field_name("name", &mut cursor).count() as u32).max(1)
            }
            "attribute_item" | "positional_separator" | "keyword_separator" => 0,
            _ => 1,
        })
        .sum()
}

fn unquoted(text: &str) -> String {
    text.trim_matches(['"', '\'', '`', '<', '>']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions as `name@line-end(parameters) complexity/nesting`, types, imports.
    fn told(language: Language, source: &str) -> (Vec<String>, String, String) {
        let report = analyze(source, language).unwrap();
        assert_eq!(report.syntax_errors, 0, "{source}");
        let function = |f: &Function| {
            format!("{}@{}-{}({}) {}/{}", f.name, f.line, f.end_line, f.parameters, f.complexity, f.nesting)
        };
        let names =
            |all: &[(String, u32)]| all.iter().map(|(n, l)| format!("{n}@{l}")).collect::<Vec<_>>().join(" ");
        (report.functions.iter().map(function).collect(), names(&report.types), names(&report.imports))
    }

    #[test]
    fn python_source_is_analyzed() {
        let source = "import os, sys as s\nfrom a.b import c\n\nclass K:\n    def m(self, x=1, *y, z: int = 2):\n        if x and y:\n            for q in x:\n                pass\n        elif z:\n            pass\n        return [i for i in y if i]\n\ndef f():\n    def g(): return 1 if 2 else 3\n    try:\n        g()\n    except ValueError:\n        pass\n";
        let (functions, types, imports) = told(Language::Python, source);
        assert_eq!(functions, ["K.m@5-11(4) 7/2", "f@13-18(0) 2/1", "f.g@14-14(0) 2/0"]);
        assert_eq!((types.as_str(), imports.as_str()), ("K@4", "os@1 sys@1 a.b@2"));
    }

    #[test]
    fn javascript_and_typescript() {
        let source = "import x from 'x';\nconst y = require(\"y\");\nclass A { m(a, b) { while (a) { if (b || a) {} else if (a) {} } } p = () => 1; }\nconst f = q => { switch (q) { case 1: break; default: } };\n[1].map(function () { return 1 ? 2 : 3; });\n";
        let (functions, types, imports) = told(Language::Javascript, source);
        assert_eq!(functions, ["A.m@3-3(2) 5/2", "A.p@3-3(0) 1/0", "f@4-4(1) 2/1", "(anonymous)@5-5(0) 2/0"]);
        assert_eq!((types.as_str(), imports.as_str()), ("A@3", "x@1 y@2"));
        let source = "import { a } from \"./a\";\ninterface I { x: number }\nenum E { A }\ntype T = I;\nfunction f(x: number, y?: string): void { x ?? y; }\n";
        let (functions, types, imports) = told(Language::Typescript, source);
        assert_eq!(
            (functions, types.as_str(), imports.as_str()),
            (vec!["f@5-5(2) 2/0".to_owned()], "I@2 E@3 T@4", "./a@1")
        );
        assert_eq!(told(Language::Tsx, "const F = () => <a>{1}</a>;\n").0, ["F@1-1(0) 1/0"]);
    }

    #[test]
    fn rust_source_is_analyzed() {
        let source = "use std::io::{self, Read};\nstruct S;\nimpl S {\n    fn m(&self, x: u8) -> Option<u8> {\n        match x {\n            0 if x > 1 && x < 3 => None?,\n            _ => Some(1),\n        }\n    }\n}\nfn f() { for _ in 0..1 { if true {} else if false {} } }\n";
        let (functions, types, imports) = told(Language::Rust, source);
        assert_eq!(functions, ["S.m@4-9(2) 5/1", "f@11-11(0) 4/2"]);
        assert_eq!((types.as_str(), imports.as_str()), ("S@2", "std::io::{self, Read}@1"));
    }

    #[test]
    fn go_java_and_c() {
        let source = "package p\nimport (\n\t\"fmt\"\n\tx \"a/b\"\n)\ntype T struct{}\nfunc (t T) M(a, b int, c string) {\n\tif a > 1 && b > 2 {\n\t} else if a > 2 {\n\t}\n\tswitch a {\n\tcase 1:\n\tdefault:\n\t}\n}\n";
        let (functions, types, imports) = told(Language::Go, source);
        assert_eq!(
            (functions, types.as_str(), imports.as_str()),
            (vec!["M@7-15(3) 5/1".to_owned()], "T@6", "fmt@3 a/b@4")
        );
        let source = "import java.util.List;\nimport static a.B.*;\nclass C {\n  C() {}\n  int m(int a) { try { return a > 1 ? 2 : 3; } catch (Exception e) { } switch (a) { case 1: break; default: } return 0; }\n}\n";
        let (functions, types, imports) = told(Language::Java, source);
        assert_eq!(functions, ["C.C@4-4(0) 1/0", "C.m@5-5(1) 4/1"]);
        assert_eq!((types.as_str(), imports.as_str()), ("C@3", "java.util.List@1 a.B.*@2"));
        let source = "#include <stdio.h>\n#include \"a.h\"\nstruct s { int x; };\nstatic struct s *f(int a, char *b) { do { if (a) {} } while (a || b); return 0; }\n";
        let (functions, types, imports) = told(Language::C, source);
        assert_eq!(
            (functions, types.as_str(), imports.as_str()),
            (vec!["f@4-4(2) 4/2".to_owned()], "s@3", "stdio.h@1 a.h@2")
        );
    }

    #[test]
    fn analysis_counts_lines_and_syntax_errors() {
        let report = analyze("# a\n\nx = 1 # b\ndef f(:\n  pass\n", Language::Python).unwrap();
        assert_eq!((report.lines, report.comment_lines), (5, 2));
        assert!(report.syntax_errors > 0 && report.code_lines >= 3);
        let deep = "(".repeat(50_000);
        assert!(analyze(&deep, Language::Python).unwrap().syntax_errors > 0);
    }
}
