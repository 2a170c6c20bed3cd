//! Checks that an awk program only computes and prints. The text is tokenised as awk does, so that text in a
//! string, a regular expression or a comment does not count as code.

/// True when a program starts no command, writes no file and loads no code.
pub(super) fn only_computes(code: &str) -> bool {
    match tokens(code) {
        // Text that one interpreter reads as a string may be code to another.
        Reading::Ambiguous => names_nothing(code),
        Reading::Broken => false,
        Reading::Of(tokens) => computes(&tokens),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'a> {
    Name(&'a str),
    Text(&'a str),
    /// A number or a regular expression.
    Value,
    /// A single character, or an operator such as `||`, `&&`, `>=`, `>>`, `++`, `--` as one sign.
    Sign(&'a str),
    Line,
}

impl Token<'_> {
    /// True when an expression may end here, so that a following slash divides.
    fn ends(self) -> bool {
        match self {
            Self::Name(name) => !KEYWORDS.contains(&name),
            Self::Text(_) | Self::Value => true,
            Self::Sign(sign) => matches!(sign, ")" | "]" | "++" | "--"),
            Self::Line => false,
        }
    }

    /// True when a following slash is ambiguous: `if (x) /re/` and `(x) / 2`.
    fn is_ambiguous(self) -> bool {
        matches!(self, Self::Sign(")" | "++" | "--") | Self::Name("length" | "getline"))
    }
}

/// Words after which a slash begins a regular expression.
const KEYWORDS: &[&str] = &[
    "print", "printf", "return", "in", "else", "do", "delete", "case", "exit", "if", "while", "for",
    "switch", "BEGIN", "END", "func", "function",
];

enum Reading<'a> {
    Of(Vec<Token<'a>>),
    /// A slash, a bracket or a line end that interpreters read in different ways.
    Ambiguous,
    /// Not a valid awk program.
    Broken,
}

fn tokens(code: &str) -> Reading<'_> {
    let bytes = code.as_bytes();
    let mut all: Vec<Token<'_>> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let from = at;
        match bytes[at] {
            b'\n' => {
                all.push(Token::Line);
                at += 1;
            }
            b' ' | b'\t' | b'\r' => at += 1,
            b'#' => {
                at += code[at..].find('\n').unwrap_or(code.len() - at);
                if code[..at].ends_with('\\') {
                    return Reading::Ambiguous;
                }
            }
            b'"' => {
                at += 1;
                loop {
                    match bytes.get(at) {
                        None | Some(b'\n') => return Reading::Broken,
                        Some(b'\\') => at += 2,
                        Some(b'"') => break,
                        Some(_) => at += 1,
                    }
                }
                at += 1;
                all.push(Token::Text(&code[from + 1..at - 1]));
            }
            b'/' => {
                let before = all.last().copied();
                if before.is_some_and(Token::is_ambiguous) {
                    return Reading::Ambiguous;
                }
                at += 1;
                if before.is_some_and(Token::ends) {
                    all.push(Token::Sign("/"));
                    continue;
                }
                let mut bracket = false;
                loop {
                    match bytes.get(at) {
                        None | Some(b'\n') => return Reading::Broken,
                        Some(b'\\') => at += 2,
                        // Some awks end the expression at a slash in brackets.
                        Some(b'/') if bracket => return Reading::Ambiguous,
                        Some(b'/') => break,
                        Some(b'[') => {
                            bracket = true;
                            at += 1;
                        }
                        Some(b']') => {
                            bracket = false;
                            at += 1;
                        }
                        Some(_) => at += 1,
                    }
                }
                at += 1;
                all.push(Token::Value);
            }
            byte if byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii() => {
                while bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_' || !b.is_ascii())
                {
                    at += 1;
                }
                all.push(Token::Name(&code[from..at]));
            }
            byte if byte.is_ascii_digit() => {
                while bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'.') {
                    at += 1;
                }
                all.push(Token::Value);
            }
            // A continued line may split a word, and `@` calls by name, includes and loads.
            b'\\' | b'@' => return Reading::Broken,
            _ => {
                let double = code.get(at..at + 2).filter(|two| {
                    matches!(*two, "||" | "&&" | ">=" | "<=" | "==" | "!=" | ">>" | "++" | "--")
                });
                at += if double.is_some() { 2 } else { 1 };
                all.push(Token::Sign(&code[from..at]));
            }
        }
    }
    Reading::Of(all)
}

fn computes(all: &[Token<'_>]) -> bool {
    // Bracket depth of the current print statement, if any.
    let mut prints: Option<usize> = None;
    let mut depth = 0_usize;
    for (at, token) in all.iter().enumerate() {
        let next = all.get(at + 1);
        match *token {
            Token::Name("system") => return false,
            // Only from the main input.
            Token::Name("getline") => {
                let rest =
                    all[at..].iter().take_while(|t| !matches!(t, Token::Line | Token::Sign(";" | "}")));
                if rest.into_iter().any(|t| matches!(t, Token::Sign("<" | "|"))) {
                    return false;
                }
            }
            Token::Name("print" | "printf") => prints = Some(depth),
            Token::Sign("|" | ">>") => return false,
            Token::Sign("(" | "[") => depth += 1,
            Token::Sign(")" | "]") => depth = depth.saturating_sub(1),
            Token::Sign(";" | "}") => {
                prints = None;
                depth = 0;
            }
            Token::Sign(">") if prints.is_some_and(|own| depth <= own) => {
                let standard = matches!(next, Some(Token::Text("/dev/stderr" | "/dev/stdout")));
                let ends = matches!(all.get(at + 2), None | Some(Token::Line | Token::Sign(";" | "}")));
                if !standard || !ends {
                    return false;
                }
            }
            // After a comma or an operator the statement continues.
            Token::Line => {
                let before = all[..at].iter().rev().find(|t| **t != Token::Line);
                if before.is_some_and(|t| t.ends() || matches!(t, Token::Name("print"))) {
                    prints = None;
                    depth = 0;
                }
            }
            _ => {}
        }
    }
    true
}

/// True when the text contains no word or sign that could start, write or load something.
fn names_nothing(code: &str) -> bool {
    let pipes = code.replace("||", "").contains('|');
    let writes = code.contains('>') && code.contains("print");
    !pipes && !writes && !["system", "getline", "@", "\\\n"].iter().any(|word| code.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HONEST: &[&str] = &[
        "/foo|bar/{n++} END{print n}",
        "{if($1>max)max=$1} END{print max}",
        "NF > n {n = NF} END {print n}",
        "{print $1 \" -> \" $2}",
        "{printf \"%s|%s\\n\", $1, $2}",
        "{ s += $1 } END { print s }",
        "$3 > 5 || $2 == \"a\" { print $1 }",
        "!seen[$0]++",
        "NR==FNR{a[$1]=$2;next} $1 in a{print a[$1]}",
        "BEGIN{FS=\"|\"} {print $2}",
        "{print ($1 > $2 ? $1 : $2)}",
        "{gsub(/[<>|]/, \"\"); print}",
        "/a\\/b|c/ {print}",
        "length($0) > 80",
        "{ print length($0) / 2 }",
        "{n=split($0,a,/;|,/); for(i=1;i<=n;i++) print a[i]}",
        "# system() and | are told of here\n{print}",
        "{print \"system(x) | getline\"}",
        "{getline; print}",
        "BEGIN{while((getline line)>0) n++; print n}",
        "{print \"bad\" > \"/dev/stderr\"}",
        "$1 >= 3 && $2 <= 4 {print $1/$2}",
        "{a[$1] = a[$1] ? a[$1] \"|\" $2 : $2} END {for (k in a) print k, a[k]}",
        "function max(a, b) {\n  return a > b ? a : b\n}\n{ print max($1, $2) }",
        "{ if ($1 ~ /^x|y$/) { print $2 } else if ($3 > 1) print $4 }",
        "BEGIN { print 1 }\n$1 > 2 { n++ }",
        "{print(a[$1 > 2])}",
    ];
    const HOSTILE: &[&str] = &[
        "BEGIN{system(\"x\")}",
        "BEGIN{ system  (\"x\") }",
        "{print | \"sh\"}",
        "{print $0|\"sh\"}",
        "{print |& \"sh\"}",
        "BEGIN{\"id\" | getline x; print x}",
        "BEGIN{\"id\"|getline}",
        "BEGIN{getline x < \"/etc/shadow\"; print x}",
        "BEGIN{while((getline l < f) > 0) print l}",
        "{print > \"f\"}",
        "{print $1 > $2}",
        "{print $1 >> \"f\"}",
        "{printf(\"%s\", $1) > \"f\"}",
        "{print(1)>2}",
        "{print 1,\n 2 > \"f\"}",
        "{print a ?\n b : c > \"f\"}",
        "{print \"a\" > \"/dev/stderr\" x}",
        "{print > \"/dev/\" x}",
        "@load \"filefuncs\"",
        "@include \"x\"",
        "BEGIN{f=\"system\"; @f(\"x\")}",
        "BEGIN{sys\\\ntem(\"x\")}",
        "{if (x) /\"/ ; system(\"id\") } #\"",
        "{print $/\"/; system(\"id\") } #\"",
        "BEGIN{x = 1 / 2; system(\"x\") / 3}",
        "BEGIN{a[1] /2; system(\"/\")}",
        "BEGIN{print length /\"/; system(\"id\") #\"\n}",
        "/[/\"]/; BEGIN{system(\"id\")} #\"",
        "# a comment \\\nBEGIN{system(\"x\")}",
        "{print \"open\n | \"sh\"}",
        "{ print $1; print $2 | \"sh\" }",
        "BEGIN{printf \"x\" | ENVIRON[\"C\"]}",
    ];

    #[test]
    fn awk_programs_that_compute_only_are_recognised() {
        for code in HONEST {
            assert!(only_computes(code), "{code}");
        }
        for code in HOSTILE {
            assert!(!only_computes(code), "{code}");
        }
    }

    proptest::proptest! {
        /// Honest text around a command does not hide it.
        #[test]
        fn honest_text_hides_no_command(
            before in proptest::sample::select(HONEST),
            hostile in proptest::sample::select(&["BEGIN{system(\"x\")}", "{print | \"sh\"}", "{print > \"f\"}"][..]),
            after in proptest::sample::select(HONEST),
        ) {
            let code = format!("{before}\n{hostile}\n{after}");
            proptest::prop_assert!(!only_computes(&code), "{}", code);
        }

        #[test]
        fn arbitrary_awk_text_causes_no_panic(code in "[\\PC\n/\"|>\\\\]{0,60}") {
            let _ = only_computes(&code);
        }
    }
}
