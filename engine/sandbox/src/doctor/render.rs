//! Renders a report for a terminal. Pure.

use std::fmt::Write;

use super::{Availability, Doctor};
use crate::outcome::LayerState;
use crate::text::printable;

/// Maximum line width in columns, unless a single word is longer.
const WIDTH: usize = 80;
/// Column at which the answers begin.
const INDENT: usize = 17;

/// Renders the report for a terminal of 80 columns: a line for each layer with the advice below it, then the
/// profiles. With `colour` the marks have ANSI colours.
#[must_use]
pub fn render(doctor: &Doctor, colour: bool) -> String {
    let mut text = String::new();
    let host = &doctor.host;
    let container = host.container.as_ref().map(|kind| format!(", in a container ({kind})"));
    let line = format!("Linux {} {}, {}{}", host.kernel, host.arch, host.user, container.unwrap_or_default());
    let _ = writeln!(text, "{}\n", plain(&line));
    for (layer, report) in &doctor.layers {
        let (mark, said) = match &report.state {
            LayerState::On => (Mark::Good, plain(&report.answer)),
            LayerState::Off => (Mark::Absent, "off".to_owned()),
            LayerState::Unavailable(why) => (Mark::Bad, plain(&format!("unavailable: {why}"))),
        };
        row(&mut text, mark, layer.name(), &said, colour);
        if let Some(mend) = &report.mend {
            wrapped(&mut text, "to mend it: ", &plain(mend));
        }
    }
    if !doctor.profiles.is_empty() {
        text.push('\n');
    }
    for (name, availability) in &doctor.profiles {
        match availability {
            Availability::Available => row(&mut text, Mark::Good, name, "available", colour),
            Availability::Refused(why) => {
                row(&mut text, Mark::Bad, name, &plain(&format!("refused: {why}")), colour);
            }
        }
    }
    text
}

#[derive(Clone, Copy)]
enum Mark {
    Good,
    Bad,
    Absent,
}

impl Mark {
    const fn sign(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Bad => "✗",
            Self::Absent => "–",
        }
    }
    const fn colour(self) -> &'static str {
        match self {
            Self::Good => "\u{1b}[32m",
            Self::Bad => "\u{1b}[31m",
            Self::Absent => "\u{1b}[33m",
        }
    }
}

/// Appends a row: mark, name and description.
fn row(text: &mut String, mark: Mark, name: &str, said: &str, colour: bool) {
    let (on, off) = if colour { (mark.colour(), "\u{1b}[0m") } else { ("", "") };
    let _ = write!(text, " {on}{}{off} {:<13} ", mark.sign(), plain(name));
    fill(text, said, INDENT.max(plain(name).chars().count() + 4));
}

/// Appends a paragraph, indented to the column of the answers.
fn wrapped(text: &mut String, head: &str, said: &str) {
    let _ = write!(text, "{:INDENT$}{head}", "");
    fill(text, said, INDENT + head.len());
}

/// Appends words from `column` on; further lines begin at the column of the answers.
fn fill(text: &mut String, words: &str, mut column: usize) {
    let mut first = true;
    for word in words.split(' ').filter(|w| !w.is_empty()) {
        let length = word.chars().count();
        if !first && column + 1 + length > WIDTH {
            let _ = write!(text, "\n{:INDENT$}", "");
            column = INDENT;
        } else if !first {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
        first = false;
    }
    text.push('\n');
}

/// Escapes a reason to one line in which every character is visible: reasons may quote file names.
fn plain(text: &str) -> String {
    printable(&text.replace(['\n', '\t'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::facts::HostReport;
    use crate::doctor::{LayerReport, SCHEMA};
    use crate::layer::Layer;

    fn doctor() -> Doctor {
        let report = |state, answer: &str, mend: Option<&str>| LayerReport {
            state,
            tried: "something".into(),
            answer: answer.into(),
            mend: mend.map(Into::into),
        };
        let long = format!("no \u{1b}[31mcgroup {}", "can be used ".repeat(12));
        Doctor {
            schema: SCHEMA.into(),
            host: HostReport {
                kernel: "6.8.0".into(),
                arch: "x86_64".into(),
                container: Some("docker".into()),
                user: "user 7".into(),
            },
            layers: [
                (Layer::UserNs, report(LayerState::On, "id 1000 inside, 7 outside", None)),
                (Layer::TimeNs, report(LayerState::Off, "off", Some("switched off"))),
                (Layer::Cgroup, report(LayerState::Unavailable(long), "no", Some("do the rest"))),
            ]
            .into(),
            profiles: [
                ("standard".to_owned(), Availability::Available),
                ("paranoid-and-long".to_owned(), Availability::Refused("no cgroup".into())),
            ]
            .into(),
        }
    }

    #[test]
    fn doctor_report_renders_without_colours() {
        let text = render(&doctor(), false);
        for want in [
            "Linux 6.8.0 x86_64, user 7, in a container (docker)\n\n",
            "\n ✓ user_ns       id 1000 inside, 7 outside\n",
            "\n – time_ns       off\n                 to mend it: switched off\n",
            "\n ✗ cgroup        unavailable: no \\u{1b}[31mcgroup can be used",
            "\n                 to mend it: do the rest\n",
            "\n\n ✗ paranoid-and-long refused: no cgroup\n",
            "\n ✓ standard      available\n",
        ] {
            assert!(text.contains(want), "{want:?} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn colours_are_for_the_marks_only() {
        let text = render(&doctor(), true);
        assert!(text.contains("\u{1b}[32m✓\u{1b}[0m user_ns"), "{text:?}");
        assert_eq!(text.matches('\u{1b}').count(), 2 * 5, "three layers and two profiles");
    }
}
