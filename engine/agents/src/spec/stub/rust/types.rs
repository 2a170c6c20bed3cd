//! Types that a plan of Rust declares, and code that makes values of them. The code stands beside the type, where its private fields can be named, and the
//! compiler finds the values of the fields, so that a type from elsewhere needs no list.

use super::{angles, names_condition};
use crate::spec::stub::blank::{group, parts, skip, word};

/// Trait of the helper.
const VALUE: &str = "crate::hotcell_stub::Value";
/// Trait of types whose parameters have no value by the former.
const LOOSE: &str = "crate::hotcell_stub::Loose";
/// Option by its whole path: a plan may have its own.
const OPTION: &str = "::std::option::Option";

/// A structure or an enumeration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Type {
    pub name: String,
    params: Vec<Param>,
    /// Bounds after `where`; empty without any.
    bounds: String,
    /// Variants, or the structure itself with an empty name.
    pub shapes: Vec<Shape>,
    /// Values of it are not made: its size is not known, or a part of it is there on a condition.
    is_left: bool,
}

/// Parameter of a type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Param {
    pub name: String,
    /// Declaration without its default.
    declared: String,
    /// Default; empty without one.
    pub default: String,
}

/// A variant, or a structure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    name: String,
    fields: Fields,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Fields {
    #[default]
    Nothing,
    Places(Vec<String>),
    Named(Vec<(String, String)>),
}

impl Shape {
    /// Types of the fields.
    pub fn kinds(&self) -> Vec<&str> {
        match &self.fields {
            Fields::Nothing => Vec::new(),
            Fields::Places(kinds) => kinds.iter().map(String::as_str).collect(),
            Fields::Named(fields) => fields.iter().map(|(_, kind)| kind.as_str()).collect(),
        }
    }

    fn made(&self) -> String {
        let name = if self.name.is_empty() { "Self".to_owned() } else { format!("Self::{}", self.name) };
        let value = |kind: &str| format!("crate::hotcell_made!({kind}, depth)?");
        match &self.fields {
            Fields::Nothing => name,
            Fields::Places(kinds) => {
                let all: Vec<String> = kinds.iter().map(|kind| value(kind)).collect();
                format!("{name}({})", all.join(", "))
            }
            Fields::Named(fields) => {
                let all: Vec<String> =
                    fields.iter().map(|(field, kind)| format!("{field}: {}", value(kind))).collect();
                format!("{name} {{ {} }}", all.join(", "))
            }
        }
    }
}

impl Param {
    /// Tells it from lifetimes and constants.
    pub fn is_type(&self) -> bool {
        !self.declared.starts_with('\'') && !self.declared.starts_with("const ")
    }

    /// Declaration of a parameter that has values.
    fn with_value(&self) -> String {
        let bound = if self.declared.contains(':') { " +" } else { ":" };
        if self.is_type() { format!("{}{bound} {VALUE}", self.declared) } else { self.declared.clone() }
    }
}

impl Type {
    /// Parameters in their order.
    pub fn params(&self) -> impl Iterator<Item = &Param> {
        self.params.iter()
    }

    /// Code that makes values of the type; empty where it cannot be written.
    pub fn made(&self) -> String {
        if self.is_left {
            return String::new();
        }
        let with_value = self.params.iter().map(Param::with_value).collect::<Vec<_>>();
        let made = self.implemented(VALUE, &with_value);
        if !self.params.iter().any(Param::is_type) {
            return made;
        }
        let declared: Vec<String> = self.params.iter().map(|param| param.declared.clone()).collect();
        format!("{made}\n{}", self.implemented(LOOSE, &declared))
    }

    /// Code of one of the helper's traits.
    fn implemented(&self, helper: &str, declared: &[String]) -> String {
        let declared: Vec<&str> = declared.iter().map(String::as_str).collect();
        let names: Vec<&str> = self.params.iter().map(|param| &*param.name).collect();
        let around =
            |all: &[&str]| if all.is_empty() { String::new() } else { format!("<{}>", all.join(", ")) };
        let bounds = if self.bounds.is_empty() { String::new() } else { format!(" where {}", self.bounds) };
        let shapes: Vec<String> =
            self.shapes.iter().map(|shape| format!("|depth| {OPTION}::Some({})", shape.made())).collect();
        format!(
            "impl{} {helper} for {}{}{bounds} {{ fn of(depth: u32) -> {OPTION}<Self> {{ \
             let all: &[fn(u32) -> {OPTION}<Self>] = &[{}]; crate::hotcell_stub::first(all, depth.checked_sub(1)?) }} }}",
            around(&declared),
            self.name,
            around(&names),
            shapes.join(", ")
        )
    }
}

/// Parts between commas outside of brackets, those of generics among them.
pub(super) fn listed(text: &str) -> Vec<&str> {
    let (mut all, mut depth, mut from, mut before) = (Vec::new(), 0_i32, 0, b' ');
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b'>' if before == b'-' || before == b'=' => {}
            b')' | b']' | b'}' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                all.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
        before = byte;
    }
    all.push(text[from..].trim());
    all.retain(|part| !part.is_empty());
    all
}

/// Text without the attributes before it.
fn bare(mut text: &str) -> &str {
    while text.starts_with('#') {
        let Some(end) = text.find('[').and_then(|open| group(text, open)) else { return text };
        text = text[end..].trim_start();
    }
    text
}

/// Text without its `pub`.
fn hidden(text: &str) -> &str {
    let text = bare(text);
    let Some(rest) = text.strip_prefix("pub").filter(|rest| rest.starts_with([' ', '(', '\t', '\n'])) else {
        return text;
    };
    let rest = rest.trim_start();
    let within = rest.strip_prefix('(').map(|rest| word(rest.trim_start(), 0));
    match (within, group(rest, 0)) {
        (Some("crate" | "super" | "self" | "in"), Some(end)) => rest[end..].trim_start(),
        _ => rest,
    }
}

fn param(text: &str) -> Option<Param> {
    let text = bare(text);
    // Bounds have `=` within brackets only.
    let (mut depth, mut before) = (0_i32, b' ');
    let default = text.bytes().position(|byte| {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            b'>' if before == b'-' => {}
            b'>' | b')' | b']' => depth -= 1,
            _ => {}
        }
        before = byte;
        byte == b'=' && depth == 0
    });
    let end = default.unwrap_or(text.len());
    let declared = text[..end].trim().trim_end_matches(':').trim_end().to_owned();
    let default = text[end..].trim_start_matches('=').trim().to_owned();
    let name = match declared.strip_prefix("const ") {
        Some(rest) => word(rest.trim_start(), 0).to_owned(),
        None if declared.starts_with('\'') => declared.split(':').next()?.trim().to_owned(),
        None => word(&declared, 0).to_owned(),
    };
    (!name.is_empty()).then_some(Param { name, declared, default })
}

fn places(text: &str) -> Fields {
    Fields::Places(listed(text).into_iter().map(|part| hidden(part).to_owned()).collect())
}

fn named(text: &str) -> Option<Fields> {
    let field = |part: &&str| {
        let (name, kind) = hidden(part).split_once(':')?;
        Some((name.trim().to_owned(), kind.trim().to_owned()))
    };
    listed(text).iter().map(field).collect::<Option<_>>().map(Fields::Named)
}

fn variant(text: &str) -> Option<Shape> {
    let text = bare(text);
    let name = word(text, 0);
    let at = skip(text, name.len(), true);
    let fields = match text.as_bytes().get(at) {
        Some(b'(') => places(&text[at + 1..group(text, at)? - 1]),
        Some(b'{') => named(&text[at + 1..group(text, at)? - 1])?,
        Some(b'=') | None => Fields::Nothing,
        Some(_) => return None,
    };
    (!name.is_empty()).then(|| Shape { name: name.to_owned(), fields })
}

/// Place of the `{` or `;` after bounds.
fn after_bounds(code: &str, mut at: usize) -> Option<usize> {
    loop {
        match code.as_bytes().get(at)? {
            b'{' | b';' => return Some(at),
            b'(' | b'[' => at = group(code, at)?,
            _ => at += 1,
        }
    }
}

/// Tells if values of a type have no known size.
fn is_unsized(kind: &str) -> bool {
    kind == "str" || kind.starts_with("dyn ") || (kind.starts_with('[') && !kind.contains(';'))
}

/// Reads the declaration of a type at its `struct` or `enum`, and gives the place after it; `None` when it cannot be read.
pub(super) fn declared(code: &str, from: usize) -> Option<(Type, usize)> {
    let keyword = word(code, from);
    let mut at = skip(code, from + keyword.len(), true);
    let mut of = Type { name: word(code, at).to_owned(), ..Type::default() };
    at = skip(code, at + of.name.len(), true);
    if code[at..].starts_with('<') {
        let end = angles(code, at)?;
        of.params = listed(&code[at + 1..end - 1]).into_iter().map(param).collect::<Option<_>>()?;
        of.is_left = code[at..end].contains("?Sized");
        at = skip(code, end, true);
    }
    let mut fields = Fields::Nothing;
    if code[at..].starts_with('(') {
        let end = group(code, at)?;
        fields = places(&code[at + 1..end - 1]);
        at = skip(code, end, true);
    }
    if word(code, at) == "where" {
        let end = after_bounds(code, at)?;
        of.bounds = code[at + "where".len()..end].trim().to_owned();
        at = end;
    }
    let end = match code.as_bytes().get(at)? {
        b'{' => group(code, at)?,
        b';' => at + 1,
        _ => return None,
    };
    let body = code.get(at + 1..end.saturating_sub(1)).unwrap_or_default();
    if keyword == "enum" {
        of.shapes = parts(body).into_iter().map(variant).collect::<Option<_>>()?;
    } else {
        let fields = if code[at..].starts_with('{') { named(body)? } else { fields };
        of.shapes = vec![Shape { fields, ..Shape::default() }];
    }
    of.is_left |= names_condition(&code[from..end])
        || of.bounds.contains("?Sized")
        || of.shapes.iter().any(|shape| shape.kinds().last().is_some_and(|kind| is_unsized(kind)));
    (!of.name.is_empty()).then_some((of, end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<Type> {
        let (of, end) = declared(text, 0)?;
        assert_eq!(end, text.len(), "{text}");
        Some(of)
    }

    #[test]
    fn types_are_read_with_parameters_bounds_and_fields() {
        for (text, name, params, bounds, shapes) in [
            ("struct Unit;", "Unit", &[][..], "", &[&[][..]][..]),
            (
                "struct P { pub x: i64, y: HashMap<String, Vec<u8>>, }",
                "P",
                &[],
                "",
                &[&["i64", "HashMap<String, Vec<u8>>"]],
            ),
            (
                "struct T(pub i64, pub(crate) (u8, u8), pub (u8, u8));",
                "T",
                &[],
                "",
                &[&["i64", "(u8, u8)", "(u8, u8)"]],
            ),
            (
                "struct G<'a, T: Iterator<Item = i64> = X, const N: usize = 3, U>(&'a T, [U; N]) where U: Fn(i64) -> i64;",
                "G",
                &["'a", "T", "N", "U"],
                "U: Fn(i64) -> i64",
                &[&["&'a T", "[U; N]"]],
            ),
            (
                "enum E { A, #[default] B(Box<E>, i64), C { a: fn(i64) -> i64, r#type: u8 }, D = 1 << 2 }",
                "E",
                &[],
                "",
                &[&[], &["Box<E>", "i64"], &["fn(i64) -> i64", "u8"], &[]],
            ),
            ("enum Never {}", "Never", &[], "", &[]),
        ] {
            let of = read(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((&*of.name, &*of.bounds), (name, bounds), "{text}");
            assert_eq!(of.params.iter().map(|param| &*param.name).collect::<Vec<_>>(), params, "{text}");
            assert_eq!(of.shapes.iter().map(Shape::kinds).collect::<Vec<_>>(), shapes, "{text}");
            assert!(!of.is_left && of.made().contains(&format!("{VALUE} for {name}")), "{text}");
        }
        for text in ["struct", "struct {", "struct A", "struct A { x }", "enum E { A B }", "struct A<T"] {
            assert_eq!(declared(text, 0), None, "{text}");
        }
    }

    #[test]
    fn arrows_close_no_bounds_and_fields_are_no_conditions() {
        for (text, declared, default) in [
            ("F: Fn(i64) -> bool = fn(i64) -> bool", "F: Fn(i64) -> bool", "fn(i64) -> bool"),
            ("F: Fn() -> Vec<i64> = X", "F: Fn() -> Vec<i64>", "X"),
            ("T: Iterator<Item = i64>", "T: Iterator<Item = i64>", ""),
            ("const N: usize = 3", "const N: usize", "3"),
        ] {
            let param = param(text).unwrap();
            assert_eq!((&*param.declared, &*param.default), (declared, default), "{text}");
        }
        for text in ["struct S { cfg: u8 }", "struct Config(cfg::Of);", "enum E { cfg }"] {
            assert!(!read(text).unwrap().is_left, "{text}");
        }
    }

    #[test]
    fn types_without_a_known_size_or_on_a_condition_are_left() {
        for text in [
            "struct S { t: [u8] }",
            "struct S { n: i64, t: str }",
            "struct S<T: ?Sized> { t: Box<T> }",
            "struct S<T> where T: ?Sized { t: Box<T> }",
            "enum E { #[cfg(test)] A, B }",
        ] {
            assert_eq!(read(text).map(|of| of.made()), Some(String::new()), "{text}");
        }
    }

    #[test]
    fn values_are_made_by_whole_paths() {
        let of = read("enum E<T> { A, B(T), C { x: i64 } }").unwrap();
        let made = of.made();
        let (with_value, loose) = made.split_once('\n').unwrap();
        assert_eq!(
            with_value.replace("<T: crate::hotcell_stub::Value>", "<T>").replace("::Value ", "::Loose "),
            loose
        );
        assert_eq!(
            with_value,
            "impl<T: crate::hotcell_stub::Value> crate::hotcell_stub::Value for E<T> { fn of(depth: u32) -> ::std::option::Option<Self> { \
             let all: &[fn(u32) -> ::std::option::Option<Self>] = &[|depth| ::std::option::Option::Some(Self::A), \
             |depth| ::std::option::Option::Some(Self::B(crate::hotcell_made!(T, depth)?)), \
             |depth| ::std::option::Option::Some(Self::C { x: crate::hotcell_made!(i64, depth)? })]; \
             crate::hotcell_stub::first(all, depth.checked_sub(1)?) } }"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_not(text in "(struct |enum )(pub |where |#|[A-Z]|[a-z]|'a|\\(|\\)|\\[|\\]|\\{|\\}|<|>|->|=|:|,|;|\n| |é){0,40}") {
            if let Some((of, end)) = declared(&text, 0) {
                prop_assert!(text.is_char_boundary(end));
                let _ = of.made();
            }
        }
    }
}
