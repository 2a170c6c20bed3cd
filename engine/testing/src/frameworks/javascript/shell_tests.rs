//! Shell lines and their parsed form.

use super::*;
use proptest::prelude::*;

/// Short form of joiners, variables, words and remaining text.
fn short(line: &str) -> Vec<String> {
    parse(line)
        .into_iter()
        .map(|(joiner, pipeline)| {
            let Some(first) = pipeline.first else { return format!("{} <{}>", joiner.sign(), pipeline.text) };
            let mut out = joiner.sign().to_owned();
            for (name, value) in &first.variables {
                out += &format!(" {name}:={}", value.text);
            }
            for word in &first.words {
                out += &if word.open() { format!(" ({})", word.raw) } else { format!(" [{}]", word.text) };
            }
            for to in &first.redirections {
                out += &format!(" {to}");
            }
            out + &pipeline.into.map(|into| format!(" {into}")).unwrap_or_default()
        })
        .collect()
}

#[test]
fn shell_lines_are_parsed() {
    let table: &[(&str, &[&str])] = &[
        ("", &[]),
        ("  # nothing", &[]),
        ("mocha", &["; [mocha]"]),
        (
            "A=1 B='x y' mocha 'src/**/*.js' \"a b\" c\\ d",
            &["; A:=1 B:=x y [mocha] [src/**/*.js] [a b] [c d]"],
        ),
        ("a&&b||c;d\ne", &["; [a]", "&& [b]", "|| [c]", "; [d]", "; [e]"]),
        (
            "mocha test/*.js $X \"$Y\" `z` $(w (v)) ~/t",
            &["; [mocha] (test/*.js) ($X) (\"$Y\") (`z`) ($(w (v))) (~/t)"],
        ),
        ("mocha '$X' \"\\$Y\" a$ '*'", &["; [mocha] [$X] [$Y] [a$] [*]"]),
        ("tape t.js | tap-spec && x", &["; [tape] [t.js] | tap-spec", "&& [x]"]),
        ("mocha > out.txt 2>&1", &["; [mocha] > out.txt 2>&1"]),
        ("(cd sub && mocha) && b", &["; <(cd sub && mocha)>", "&& [b]"]),
        ("a && if x; then y; fi", &["; [a]", "&& <if x; then y; fi>"]),
        ("server & mocha", &["; <server & mocha>"]),
        ("a; 'open", &["; [a]", "; <'open>"]),
        ("a && && b", &["; [a]", "&& <&& b>"]),
        ("a \\\n b", &["; [a] [b]"]),
        ("cat <<E\nx\nE", &["; <cat <<E\nx\nE>"]),
        ("A=1", &["; A:=1"]),
        ("a=b=c 1x=2", &["; a:=b=c [1x=2]"]),
        ("a ;", &["; [a]"]),
        ("! a", &["; <! a>"]),
        ("f() { a; }", &["; <f() { a; }>"]),
        ("echo a#b #c", &["; [echo] [a#b]"]),
        ("\"A\"=1 a", &["; [A=1] [a]"]),
    ];
    for (line, want) in table {
        assert_eq!(&short(line), want, "{line}");
    }
}

#[test]
fn values_of_variables() {
    let known = |name: &str| (name == "A").then(|| "1".to_owned());
    for (text, want) in [
        ("x", Some("x")),
        ("'$A'", Some("$A")),
        ("$A-${A}\"$A\"", Some("1-11")),
        ("\"$B --flag\"", Some(" --flag")),
        ("${A:-2}", None),
        ("$(a)", None),
        ("`a`", None),
        ("~/a", None),
        ("\\$A$A", Some("$A1")),
    ] {
        let (_, pipeline) = parse(&format!("X={text} y")).remove(0);
        let (_, word) = pipeline.first.unwrap().variables.remove(0);
        assert_eq!(value(&word, &known).as_deref(), want, "{text}");
    }
}

proptest! {
    #[test]
    fn script_parsing_loses_no_text(line in "[ab'\"\\\\$`(){}&|;<>#*=~\n 1-]{0,40}") {
        // The texts of all pipelines occur in the line, in order.
        let mut from = 0;
        for (_, pipeline) in parse(&line) {
            let at = line[from..].find(&pipeline.text);
            prop_assert!(at.is_some());
            from += at.unwrap_or(0) + pipeline.text.len();
        }
    }

    #[test]
    fn quoted_words_round_trip(words in proptest::collection::vec("\\PC{0,12}", 1..6)) {
        let line = words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ");
        let line = format!("run {line}");
        let (_, pipeline) = parse(&line).remove(0);
        let simple = pipeline.first.unwrap();
        prop_assert!(simple.words.iter().all(|w| !w.open()));
        let got: Vec<String> = simple.words[1..].iter().map(|w| w.text.clone()).collect();
        prop_assert_eq!(got, words);
    }
}
