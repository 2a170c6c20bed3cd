//! Types declared in a Java source, to find the class that `java` has to start.

/// Number of bytes of a source searched for types.
const MAX_SEARCHED_BYTES: usize = 1 << 20;

/// A top-level type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Simple name.
    pub name: String,
    /// True for a public type.
    pub public: bool,
    /// True when something in it is called `main` and takes arguments.
    pub starts: bool,
}

/// The class to start, with its package: the first with a `main`, else the first, else `Main`. `java FILE`
/// chooses in the same way (JEP 330), except that it takes the first class even without a `main`.
pub fn main_class(text: &[u8]) -> String {
    let types = types(text);
    let class = types.iter().find(|t| t.starts).or(types.first()).map_or("Main", |t| t.name.as_str());
    match package(text) {
        Some(package) => format!("{package}.{class}"),
        None => class.to_owned(),
    }
}

/// Top-level types of a source.
pub fn types(text: &[u8]) -> Vec<Type> {
    let words = words(text);
    let mut types: Vec<Type> = Vec::new();
    let mut depth = 0usize;
    let mut public = false;
    for (at, word) in words.iter().enumerate() {
        match word.as_str() {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                public = false;
            }
            ";" if depth == 0 => public = false,
            "public" if depth == 0 => public = true,
            "class" | "record" | "enum" | "interface" if depth == 0 => {
                // `@interface` declares a type, too, which cannot be started.
                if let Some(name) = words.get(at + 1).filter(|w| is_name(w)) {
                    types.push(Type { name: name.clone(), public, starts: false });
                }
            }
            "main" if depth == 1 && words.get(at + 1).is_some_and(|w| w == "(") => {
                let declared = at > 0 && words[at - 1] == "void";
                if let Some(last) = types.last_mut().filter(|_| declared) {
                    last.starts = true;
                }
            }
            _ => {}
        }
    }
    types
}

fn package(text: &[u8]) -> Option<String> {
    let words = words(text);
    let at = words.iter().position(|w| w == "package")?;
    // Before a package declaration only annotations are allowed.
    if words[..at].iter().any(|w| matches!(w.as_str(), "import" | "class" | "{")) {
        return None;
    }
    let name: String = words[at + 1..].iter().take_while(|w| *w != ";").map(String::as_str).collect();
    name.split('.').all(is_name).then_some(name)
}

fn is_name(word: &str) -> bool {
    word.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_' || c == '$')
        && word.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

/// Words and single signs, without comments and string literals.
fn words(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(&text[..text.len().min(MAX_SEARCHED_BYTES)]);
    let mut rest = text.as_ref();
    let mut words: Vec<String> = Vec::new();
    while let Some(first) = rest.chars().next() {
        rest = if let Some(comment) = rest.strip_prefix("//") {
            comment.split_once('\n').map_or("", |(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, after)| after)
        } else if let Some(block) = rest.strip_prefix("\"\"\"") {
            after_quote(block, "\"\"\"")
        } else if let Some(string) = rest.strip_prefix('"') {
            after_quote(string, "\"")
        } else if let Some(letter) = rest.strip_prefix('\'') {
            after_quote(letter, "'")
        } else if first.is_alphanumeric() || first == '_' || first == '$' {
            let end =
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            &rest[end..]
        } else {
            if !first.is_whitespace() {
                words.push(first.to_string());
            }
            &rest[first.len_utf8()..]
        };
    }
    words
}

/// Text after the closing quote; escaped characters are skipped.
fn after_quote<'a>(mut text: &'a str, end: &str) -> &'a str {
    loop {
        let Some(at) = text.find(['\\', end.as_bytes()[0] as char]) else { return "" };
        if let Some(after) = text[at..].strip_prefix(end) {
            return after;
        }
        let skipped = if text.as_bytes()[at] == b'\\' { 2 } else { 1 };
        let mut next = (at + skipped).min(text.len());
        while !text.is_char_boundary(next) {
            next += 1;
        }
        text = &text[next..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_class_with_main_is_started() {
        for (text, class) in [
            ("public class A { public static void main(String[] a) {} }", "A"),
            ("class A {} class B { static void main(String... a) { } }", "B"),
            ("package a.b;\nimport x.Y;\nclass C { public static void main(String[] a){} }", "a.b.C"),
            ("/* class X {} */ // class Y {}\nclass Z { String s = \"class Q { void main(\"; }", "Z"),
            ("class A { void f() { main(); } class I { void main() {} } } class B { void main() {} }", "B"),
            ("class A { char c = '\"'; } class B { static void main(String[] a) {} }", "B"),
            (
                "class A { String t = \"\"\"\n a \\\"\"\" }} class X { \"\"\"; static void main(String[] a) {} }",
                "A",
            ),
            ("record R(int a) { static void main(String[] a) {} }", "R"),
            ("interface I { static void main(String[] a) {} }", "I"),
            ("", "Main"),
            ("class", "Main"),
        ] {
            assert_eq!(main_class(text.as_bytes()), class, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_java_text_causes_no_panic(text in "[a-z{};\"'\\\\/* \né]{0,80}") {
            main_class(text.as_bytes());
        }
    }
}
