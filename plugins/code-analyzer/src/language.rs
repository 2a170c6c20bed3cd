//! Meaning of the nodes of each grammar.

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Go,
    Java,
    Javascript,
    Python,
    Rust,
    Typescript,
    Tsx,
}

/// Kinds of a grammar's nodes, by their meaning here.
pub(crate) struct Kinds {
    pub(crate) functions: &'static [&'static str],
    pub(crate) types: &'static [&'static str],
    /// Nodes that are one decision each.
    pub(crate) decisions: &'static [&'static str],
    /// Nodes whose contents are nested deeper.
    pub(crate) nests: &'static [&'static str],
    /// An import, and the field with the imported name; if empty, the import's own text.
    pub(crate) imports: &'static [(&'static str, &'static str)],
}

const SCRIPT: Kinds = Kinds {
    functions: &[
        "function_declaration",
        "function_expression",
        "generator_function_declaration",
        "generator_function",
        "arrow_function",
        "method_definition",
    ],
    types: &[
        "class_declaration",
        "abstract_class_declaration",
        "interface_declaration",
        "enum_declaration",
        "type_alias_declaration",
    ],
    decisions: &[
        "if_statement",
        "for_statement",
        "for_in_statement",
        "while_statement",
        "do_statement",
        "catch_clause",
        "switch_case",
        "ternary_expression",
    ],
    nests: &[
        "if_statement",
        "for_statement",
        "for_in_statement",
        "while_statement",
        "do_statement",
        "switch_statement",
        "try_statement",
    ],
    imports: &[("import_statement", "source"), ("export_statement", "source")],
};

impl Language {
    /// Language of a file, by its extension.
    pub(crate) fn of(path: &str) -> Option<Self> {
        Some(match path.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "c" | "h" => Self::C,
            "go" => Self::Go,
            "java" => Self::Java,
            "js" | "mjs" | "cjs" | "jsx" => Self::Javascript,
            "py" | "pyi" => Self::Python,
            "rs" => Self::Rust,
            "ts" | "mts" | "cts" => Self::Typescript,
            "tsx" => Self::Tsx,
            _ => return None,
        })
    }

    pub(crate) fn grammar(self) -> tree_sitter::Language {
        match self {
            Self::C => tree_sitter_c::LANGUAGE,
            Self::Go => tree_sitter_go::LANGUAGE,
            Self::Java => tree_sitter_java::LANGUAGE,
            Self::Javascript => tree_sitter_javascript::LANGUAGE,
            Self::Python => tree_sitter_python::LANGUAGE,
            Self::Rust => tree_sitter_rust::LANGUAGE,
            Self::Typescript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
        }
        .into()
    }

    pub(crate) fn kinds(self) -> &'static Kinds {
        match self {
            Self::Javascript | Self::Typescript | Self::Tsx => &SCRIPT,
            Self::C => &Kinds {
                functions: &["function_definition"],
                types: &["struct_specifier", "union_specifier", "enum_specifier"],
                decisions: &[
                    "if_statement",
                    "for_statement",
                    "while_statement",
                    "do_statement",
                    "case_statement",
                    "conditional_expression",
                ],
                nests: &[
                    "if_statement",
                    "for_statement",
                    "while_statement",
                    "do_statement",
                    "switch_statement",
                ],
                imports: &[("preproc_include", "path")],
            },
            Self::Go => &Kinds {
                functions: &["function_declaration", "method_declaration"],
                types: &["type_spec"],
                decisions: &[
                    "if_statement",
                    "for_statement",
                    "expression_case",
                    "type_case",
                    "communication_case",
                ],
                nests: &[
                    "if_statement",
                    "for_statement",
                    "expression_switch_statement",
                    "type_switch_statement",
                    "select_statement",
                ],
                imports: &[("import_spec", "path")],
            },
            Self::Java => &Kinds {
                functions: &[
                    "method_declaration",
                    "constructor_declaration",
                    "compact_constructor_declaration",
                ],
                types: &[
                    "class_declaration",
                    "interface_declaration",
                    "enum_declaration",
                    "record_declaration",
                    "annotation_type_declaration",
                ],
                decisions: &[
                    "if_statement",
                    "for_statement",
                    "enhanced_for_statement",
                    "while_statement",
                    "do_statement",
                    "catch_clause",
                    "switch_label",
                    "ternary_expression",
                ],
                nests: &[
                    "if_statement",
                    "for_statement",
                    "enhanced_for_statement",
                    "while_statement",
                    "do_statement",
                    "switch_expression",
                    "try_statement",
                ],
                imports: &[("import_declaration", "")],
            },
            Self::Python => &Kinds {
                functions: &["function_definition"],
                types: &["class_definition"],
                decisions: &[
                    "if_statement",
                    "elif_clause",
                    "for_statement",
                    "while_statement",
                    "except_clause",
                    "conditional_expression",
                    "boolean_operator",
                    "case_clause",
                    "for_in_clause",
                    "if_clause",
                ],
                nests: &[
                    "if_statement",
                    "for_statement",
                    "while_statement",
                    "try_statement",
                    "with_statement",
                    "match_statement",
                ],
                imports: &[
                    ("import_statement", "name"),
                    ("import_from_statement", "module_name"),
                    ("future_import_statement", ""),
                ],
            },
            Self::Rust => &Kinds {
                functions: &["function_item"],
                types: &["struct_item", "enum_item", "union_item", "trait_item", "type_item"],
                decisions: &[
                    "if_expression",
                    "match_arm",
                    "while_expression",
                    "for_expression",
                    "loop_expression",
                    "try_expression",
                ],
                nests: &[
                    "if_expression",
                    "match_expression",
                    "while_expression",
                    "for_expression",
                    "loop_expression",
                ],
                imports: &[("use_declaration", "argument"), ("extern_crate_declaration", "name")],
            },
        }
    }
}
