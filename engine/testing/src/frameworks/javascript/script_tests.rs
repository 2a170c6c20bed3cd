//! Scripts and their plans.

use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

fn planned(scripts: &[(&str, &str)]) -> Option<Plan> {
    let scripts: BTreeMap<String, String> =
        scripts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    plan(Scripts { scripts: &scripts, tests_of: &tests_of })
}

fn tests_of(path: &str) -> Option<&'static str> {
    if path == "own.js" { Some("node") } else { (path == "printer").then_some("tape") }
}

/// Short form of a plan: `[A=1 node(--x) mocha: a b]` starts tests, `<text>` is run by a shell.
fn short(step: &Step) -> String {
    let words = |words: &[Word]| {
        let one = |word: &Word| if word.open() { format!("({})", word.raw) } else { word.text.clone() };
        words.iter().map(one).collect::<Vec<_>>().join(" ")
    };
    match step {
        Step::All(all) => {
            let all = all.iter().enumerate().map(|(at, (joiner, step))| {
                let sign = if at == 0 { String::new() } else { format!(" {} ", joiner.sign()) };
                sign + &short(step)
            });
            format!("{{{}}}", all.collect::<String>())
        }
        Step::Run(text, None) => format!("<{text}>"),
        Step::Run(text, Some(name)) => format!("<{name}! {text}>"),
        Step::Start(start, _) => {
            let set: String =
                start.variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
            let node =
                if start.node.is_empty() { String::new() } else { format!("node({}) ", words(&start.node)) };
            let own = if start.own { " own" } else { "" };
            format!("[{set}{node}{}{own}: {}]", start.framework, words(&start.arguments))
        }
    }
}

#[test]
fn scripts_are_followed() {
    for (script, want) in [
        // Scripts as people write them.
        ("mocha 'src/**/*.test.js'", "[mocha: src/**/*.test.js]"),
        ("mocha --recursive spec", "[mocha: --recursive spec]"),
        ("NODE_ENV=test TZ='UTC' mocha --exit", "[NODE_ENV=test TZ=UTC mocha: --exit]"),
        ("cross-env NODE_ENV=x A='b c' jest unit", "[NODE_ENV=x A=b c jest: unit]"),
        ("env -u X jest", "<env -u X jest>"),
        ("env A=1 npx --no-install jest@29 a", "[A=1 jest: a]"),
        ("TZ=America/New_York jest", "[TZ=America/New_York jest: ]"),
        ("node --test checks/*.mjs", "[node(--test) node: (checks/*.mjs)]"),
        (
            "node --import tsx --test --test-force-exit a.ts",
            "[node(--import tsx --test --test-force-exit) node: a.ts]",
        ),
        ("tsx --test a.ts", "[node(--import tsx --test) node: a.ts]"),
        ("node ./node_modules/.bin/mocha a", "[mocha: a]"),
        (
            "node --experimental-vm-modules node_modules/jest/bin/jest.js -i",
            "[node(--experimental-vm-modules) jest: -i]",
        ),
        (
            "NODE_OPTIONS=\"$NODE_OPTIONS --experimental-vm-modules\" npx jest",
            "[NODE_OPTIONS= --experimental-vm-modules jest: ]",
        ),
        ("vitest run --config conf/vt.config.js", "[vitest: run --config conf/vt.config.js]"),
        ("vitest bench", "<vitest bench>"),
        ("c8 --reporter=lcov -r text mocha --x", "[mocha: --x]"),
        ("nyc --reporter text npm run unit", "{[mocha: unit]}"),
        ("nyc --check-coverage --lines 90 mocha", "<nyc! nyc --check-coverage --lines 90 mocha>"),
        ("c8 --100 node own.js", "<c8! c8 --100 node own.js>"),
        ("nyc mocha && nyc check-coverage", "{[mocha: ] && <nyc! nyc check-coverage>}"),
        ("npm run lint && npm run unit -- --bail", "{<eslint .> && {[mocha: unit --bail]}}"),
        ("yarn unit a", "{[mocha: unit a]}"),
        ("yarn jest a", "[jest: a]"),
        ("pnpm run unit", "{[mocha: unit]}"),
        ("pnpm exec vitest", "[vitest: ]"),
        ("pnpm -r test", "<pnpm -r test>"),
        ("npm run missing", "<npm run missing>"),
        ("npm run missing --if-present && jest", "{{} && [jest: ]}"),
        ("run-s lint 'c:*'", "{<eslint .> && [jest: a] && [jest: b]}"),
        ("npm-run-all --parallel lint unit", "{<eslint .> && {[mocha: unit]}}"),
        ("npm-run-all --race a b", "<npm-run-all --race a b>"),
        ("mocha && jest; ava || tape t.js", "{[mocha: ] && [jest: ] ; [ava: ] || [tape: t.js]}"),
        (
            "export A=1 B=2 && mocha && npm run lint",
            "{[A=1 B=2 mocha: ] && <export A=1; export B=2; eslint .>}",
        ),
        ("A=1 npm run unit", "{[A=1 mocha: unit]}"),
        ("mocha | cat", "[mocha: ]"),
        ("mocha > out.txt", "[mocha: ]"),
        ("tap t | tap-spec", "[tap: t]"),
        ("uvu t", "<uvu! uvu t>"),
        ("nyc tape 'test/**/*.js' | faucet", "[tape: test/**/*.js]"),
        ("NODE_ENV=x ava --serial a.js", "[NODE_ENV=x ava: --serial a.js]"),
        ("node --import x printer --fast", "[node(--import x) tape own: printer --fast]"),
        ("node other.js --fast | tap-spec", "[tap own: other.js --fast]"),
        ("node other.js | tee log", "<node other.js | tee log>"),
        ("cd sub && mocha", "<cd sub && mocha>"),
        ("(mocha a)", "<(mocha a)>"),
        ("server & mocha", "<server & mocha>"),
        ("A=$(b) mocha", "<A=$(b) mocha>"),
        ("$X mocha", "<$X mocha>"),
        ("node own.js", "[node(--test) node: own.js]"),
        ("node other.js", "<node other.js>"),
        ("node -e 1 own.js", "<node -e 1 own.js>"),
        ("./scripts/mocha a", "<./scripts/mocha a>"),
        ("karma start x.js", "[karma: start x.js]"),
        ("karma run", "<karma run>"),
        ("npx ng test shop", "[karma: test shop]"),
        ("npm test", "<npm test>"),
        ("exec mocha", "[mocha: ]"),
        ("echo no && exit 1", "{<echo no> && <exit 1>}"),
        ("", "{}"),
    ] {
        let all = [
            ("test", script),
            ("lint", "eslint ."),
            ("unit", "mocha unit"),
            ("preunit", "# nothing"),
            ("c:a", "jest a"),
            ("c:b", "jest b"),
        ];
        let got = planned(&all).unwrap();
        // An empty script before another has no effect.
        let got =
            short(&got.steps).replace("{{} && [mocha: unit", "{[mocha: unit").replace("{} && [A=1", "[A=1");
        assert_eq!(got, want, "{script}");
    }
    assert_eq!(planned(&[("lint", "eslint")]), None);
    let around = [("test", "mocha"), ("pretest", "tsc"), ("posttest", "npm run lint"), ("lint", "eslint .")];
    assert_eq!(short(&planned(&around).unwrap().steps), "{<tsc> && [mocha: ] && <eslint .>}");
}

#[test]
fn omitted_script_parts_are_noted() {
    for (script, want) in [
        ("mocha", &[][..]),
        ("mocha 2>&1 >/dev/null", &[]),
        ("mocha > out.txt", &["not followed of the script: > out.txt"]),
        ("mocha 2>&1 | tee log", &["not followed of the script: | tee log"]),
        (
            "nyc mocha && nyc report",
            &[
                "run without nyc: its coverage and thresholds are not measured",
                "not run of the script: nyc report",
            ],
        ),
    ] {
        assert_eq!(planned(&[("test", script)]).unwrap().notes, want, "{script}");
    }
}

#[test]
fn script_options_reserved_for_hotcell_are_removed() {
    for (framework, words, names, files, want) in [
        ("mocha", "-R dot --exit -p -j 4 --ui tdd -g x test", false, false, "--ui tdd -g x test"),
        ("mocha", "--reporter=dot -g x --spec y --require z test", true, true, "--require z"),
        ("mocha", "--recursive test", false, true, "--recursive"),
        (
            "jest",
            "--reporters a b --ci --config c unit --coverage",
            false,
            false,
            "--config c unit --coverage",
        ),
        ("jest", "--config c unit --coverage -t x --testPathPatterns a b", true, true, "--config c"),
        ("jest", "-i -w 4 --maxWorkers=2 --projects a b", false, true, "--projects a b"),
        ("vitest", "run --reporter dot --globals --dir unit", false, false, "run --globals --dir unit"),
        ("vitest", "run --project a -t b x.ts", true, true, "--project a"),
        ("jest", "a -- -b", false, false, "a -- -b"),
        (
            "node",
            "--test --test-concurrency 4 --test-reporter=spec --import x --test-name-pattern=y",
            true,
            true,
            "--test --import x",
        ),
    ] {
        let words: Vec<Word> = words.split(' ').map(Word::literal).collect();
        let kept = options::of(framework).unwrap().keep(&words, names, files);
        assert_eq!(
            kept.iter().map(|word| &*word.text).collect::<Vec<_>>().join(" "),
            want,
            "{framework} {words:?}"
        );
    }
}

#[test]
fn scripts_that_call_each_other_end() {
    assert_eq!(
        short(&planned(&[("test", "npm run a"), ("a", "npm run b"), ("b", "npm run a")]).unwrap().steps),
        "<npm run a>"
    );
    let many: Vec<(String, String)> =
        (0..40).map(|n| (format!("s{n}"), format!("npm run s{0} && npm run s{0}", n + 1))).collect();
    let mut all: Vec<(&str, &str)> = many.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    all.push(("test", "npm run s0"));
    assert!(planned(&all).is_some());
}

proptest! {
    /// Whatever surrounds a runner, its variables and all its words are preserved.
    #[test]
    fn script_rewriting_preserves_other_words(
        variables in proptest::collection::vec(("[A-Z][A-Z0-9_]{0,6}", "[a-zA-Z0-9/ '$*=._-]{0,8}"), 0..4),
        how in 0usize..4,
        wrapper in 0usize..9,
        runner in 0usize..5,
        arguments in proptest::collection::vec("[a-z][a-zA-Z0-9/ '$*=.|;&_-]{0,10}", 0..5),
        before in 0usize..4,
        behind in 0usize..5,
    ) {
        let (name, written) = [("mocha", "mocha"), ("jest", "./node_modules/.bin/jest"), ("vitest", "vitest"),
            ("mocha", "node node_modules/mocha/bin/mocha.js"), ("jasmine", "npx jasmine")][runner];
        prop_assume!(name != "vitest" || !arguments.iter().any(|a| ["bench", "list", "related", "init"].contains(&a.as_str())));
        // A repeated name keeps its last value.
        let set: String = variables.iter().map(|(name, value)| format!("{name}={} ", quoted(value))).collect();
        let set = match how {
            0 => set,
            1 if !variables.is_empty() => format!("env {set}"),
            2 if !variables.is_empty() => format!("cross-env {set}"),
            3 if !variables.is_empty() => format!("export {set}&& "),
            _ => set,
        };
        let wrapper = ["", "npx ", "exec ", "c8 ", "nyc --reporter=lcov ", "npx c8 -r text ", "yarn exec ", "pnpm exec ", "time "][wrapper];
        prop_assume!(!(wrapper == "exec " && how == 3));
        let words: String = arguments.iter().map(|word| format!(" {}", quoted(word))).collect();
        let before = ["", "npm run lint && ", "tsc -p .; ", "rm -rf x || true; "][before];
        let behind = ["", " && npm run lint", "; echo 'a && b'", " || exit 1", " 2>&1 | tee log"][behind];
        // `exec` ends the shell.
        prop_assume!(wrapper != "exec " || before.is_empty() && behind.is_empty());
        let script = format!("{before}{set}{wrapper}{written}{words}{behind}");
        let plan = planned(&[("test", &script), ("lint", "eslint .")]).unwrap();
        let starts = plan.starts();
        prop_assert_eq!(starts.len(), 1, "{}", script);
        prop_assert_eq!(starts[0].framework, name);
        let got: Vec<&str> = starts[0].arguments.iter().map(|word| word.text.as_str()).collect();
        prop_assert_eq!(&got, &arguments.iter().map(String::as_str).collect::<Vec<_>>(), "{}", script);
        prop_assert!(starts[0].arguments.iter().all(|word| !word.open()));
        for (name, _) in &variables {
            let want = variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value);
            let got = starts[0].variables.iter().find(|(known, _)| known == name).map(|(_, value)| value);
            prop_assert_eq!(got, want, "{}", script);
        }
        prop_assert_eq!(starts[0].variables.len(), variables.iter().map(|(name, _)| name).collect::<std::collections::BTreeSet<_>>().len());
        // Other commands are preserved, too.
        let other = short(&plan.steps);
        prop_assert!(!before.contains("tsc") || other.contains("<tsc -p .>") || other.contains("tsc -p ."), "{}", other);
        prop_assert!(!behind.contains("echo") || other.contains("echo 'a && b'"), "{}", other);
    }

    #[test]
    fn arbitrary_script_causes_no_panic(script in "\\PC{0,60}", other in "[a-z &|;'\"$(){}=-]{0,40}") {
        let _ = planned(&[("test", &script), ("a", &other)]);
        let _ = planned(&[("test", &format!("npm run a && {other}")), ("a", &script)]);
    }
}
