//! Options that the target `test` of a `Makefile` gives `go test`, which change how tests are compiled and run. Pure.

use crate::frameworks::javascript::shell::Word;
use crate::frameworks::python::words::makefile;
use crate::project::Project;

/// Options that are used, and if they have a value.
const OPTIONS: [(&str, bool); 14] = [
    ("race", false),
    ("msan", false),
    ("asan", false),
    ("short", false),
    ("tags", true),
    ("cpu", true),
    ("vet", true),
    ("timeout", true),
    ("run", true),
    ("skip", true),
    ("parallel", true),
    ("shuffle", true),
    ("ldflags", true),
    ("gcflags", true),
];

/// Options that every `go test` of the target has, in order.
pub(super) fn options(project: &dyn Project) -> Vec<String> {
    let Some(words) = makefile::read(project) else { return Vec::new() };
    let mut commands = words.by_tools.iter().filter_map(|command| of_command(&command.words));
    let first = commands.next().unwrap_or_default();
    commands.fold(first, |all, next| all.into_iter().filter(|option| next.contains(option)).collect())
}

/// True for an option that leaves tests out by their names.
pub(super) fn leaves_out(option: &str) -> bool {
    ["-run=", "-skip="].iter().any(|head| option.starts_with(head))
}

/// Options of one `go test`; `None` for another command.
fn of_command(words: &[Word]) -> Option<Vec<String>> {
    let at = words.windows(2).position(|two| two[0].text == "go" && two[1].text == "test")?;
    let mut found = Vec::new();
    let mut rest = words[at + 2..].iter();
    while let Some(word) = rest.next() {
        let Some(text) = word.text.strip_prefix('-').filter(|_| !word.open()) else { continue };
        let text = text.strip_prefix('-').unwrap_or(text);
        // Words after it are for the test programs.
        if text == "args" {
            break;
        }
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let Some((name, has_value)) = OPTIONS.iter().find(|(known, _)| *known == name) else { continue };
        found.extend(match (has_value, value) {
            (false, None) => Some(format!("-{name}")),
            (_, Some(value)) => Some(format!("-{name}={value}")),
            (true, None) => {
                rest.next().filter(|value| !value.open()).map(|value| format!("-{name}={}", value.text))
            }
        });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Makefile(&'static str);

    impl Project for Makefile {
        fn files(&self) -> &[String] {
            &[]
        }
        fn read(&self, path: &str) -> Option<Vec<u8>> {
            (path == "Makefile").then(|| self.0.as_bytes().to_vec())
        }
        fn has(&self, path: &str) -> bool {
            path == "Makefile"
        }
    }

    #[test]
    fn options_of_every_go_test_are_used() {
        for (makefile, want) in [
            ("test:\n\tgo test -race -v ./...\n", &["-race"][..]),
            ("test:\n\tgo test -tags 'a b' --short -count=1 . -args -race\n", &["-tags=a b", "-short"]),
            (
                "test:\n\tgo clean -testcache && $(MAKE) a && $(MAKE) b\na:\n\tgo test -race -v .\nb:\n\tgo test -race -cpu=1 ./m\n",
                &["-race"],
            ),
            ("F = -race\ntest:\n\tCGO_ENABLED=1 go test $(F) ./...\n", &["-race"]),
            ("test:\n\tgo test -race .\n\tgo test ./m\n", &[]),
            (
                "test:\n\tgo test -vet=off -timeout 30s -run Unit -skip=Slow -ldflags '-X a.b=c d' ./...\n",
                &["-vet=off", "-timeout=30s", "-run=Unit", "-skip=Slow", "-ldflags=-X a.b=c d"],
            ),
            ("test:\n\tgo test -v ./...\n\tgo test -run=NONE -bench=. ./...\n", &[]),
            ("test:\n\tgo test -race=false ./...\n", &["-race=false"]),
            ("test:\n\tgo test -tags $$T ./...\n", &[]),
            ("test:\n\techo go; cargo test -race\n", &[]),
            ("bench:\n\tgo test -race ./...\n", &[]),
            ("", &[]),
        ] {
            assert_eq!(options(&Makefile(makefile)), want, "{makefile}");
            let left = want.iter().any(|option| option.contains("Unit") || option.contains("Slow"));
            assert_eq!(want.iter().any(|option| leaves_out(option)), left, "{makefile}");
        }
    }
}
