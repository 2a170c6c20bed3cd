//! Names of parameters in messages. A library does not know what a front end calls a parameter, so its messages hold the key between
//! marks, alone or with a value: `raise ‹max_disk›`, `use ‹network=none›`. Each front end shows its own name there.

/// Marks at the beginning and the end of a parameter.
const MARKS: (char, char) = ('‹', '›');

/// A text with each marked parameter shown by `show`, which gets the key and the value. Marks around anything but a key stay as they are.
#[must_use]
pub fn with_parameters(text: &str, show: impl Fn(&str, Option<&str>) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(MARKS.0) {
        out.push_str(before);
        let inside = behind.split_once(MARKS.1).map(|(inside, after)| (key_and_value(inside), after));
        rest = match inside {
            Some((Some((key, value)), after)) => {
                out.push_str(&show(key, value));
                after
            }
            _ => {
                out.push(MARKS.0);
                behind
            }
        };
    }
    out + rest
}

fn key_and_value(inside: &str) -> Option<(&str, Option<&str>)> {
    let (key, value) = inside.split_once('=').map_or((inside, None), |(key, value)| (key, Some(value)));
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    is_key.then_some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_parameters_are_shown_by_the_front_end() {
        let option = |key: &str, value: Option<&str>| {
            let value = value.map(|value| format!(" {value}")).unwrap_or_default();
            format!("--{}{value}", key.replace('_', "-"))
        };
        for (text, want) in [
            ("raise ‹max_disk› or ‹max_files›", "raise --max-disk or --max-files"),
            ("use ‹network=none›", "use --network none"),
            ("‹secret=a=env:B@c›: no", "--secret a=env:B@c: no"),
            ("plain", "plain"),
            ("‹Not a key› ‹› ‹open ‹cpus›", "‹Not a key› ‹› ‹open --cpus"),
        ] {
            assert_eq!(with_parameters(text, option), want, "{text}");
        }
    }
}
