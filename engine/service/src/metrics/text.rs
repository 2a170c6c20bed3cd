//! The text format of Prometheus (version 0.0.4): families of numbers as lines. Pure.

use std::fmt::Write;

/// What kind of number a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How many took how long.
    Histogram,
}

impl Kind {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One number of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What follows the family's name: nothing, or `_bucket`, `_sum` and `_count` of a histogram.
    pub suffix: &'static str,
    /// Labels and their values.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
}

impl Sample {
    /// A number with these labels.
    #[must_use]
    pub fn new(labels: Vec<(&'static str, String)>, value: f64) -> Self {
        Self { suffix: "", labels, value }
    }
}

/// Numbers of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The name.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The numbers.
    pub samples: Vec<Sample>,
}

/// The families as text. Those without a number are left out.
#[must_use]
pub fn render(families: &[Family]) -> String {
    let mut text = String::new();
    for Family { name, help, kind, samples } in families.iter().filter(|family| !family.samples.is_empty()) {
        let help = escaped(help, false);
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
        for Sample { suffix, labels, value } in samples {
            let _ = write!(text, "{name}{suffix}");
            for (at, (label, value)) in labels.iter().enumerate() {
                let before = if at == 0 { '{' } else { ',' };
                let _ = write!(text, "{before}{label}=\"{}\"", escaped(value, true));
            }
            let end = if labels.is_empty() { "" } else { "}" };
            let _ = writeln!(text, "{end} {}", number(*value));
        }
    }
    text
}

/// A text with what would end it written otherwise.
fn escaped(text: &str, quoted: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quoted { text.replace('"', "\\\"") } else { text }
}

/// A number as the format has it.
pub(super) fn number(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else if value == f64::NEG_INFINITY {
        "-Inf".to_owned()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_lines() {
        let family = |samples| Family { name: "a_total", help: "Things.", kind: Kind::Counter, samples };
        let label = |value: &str| vec![("of", value.to_owned())];
        let head = "# HELP a_total Things.\n# TYPE a_total counter\n";
        for (samples, want) in [
            (vec![], String::new()),
            (vec![Sample::new(vec![], 0.0)], format!("{head}a_total 0\n")),
            (vec![Sample::new(vec![], 1.5)], format!("{head}a_total 1.5\n")),
            (vec![Sample::new(vec![], f64::INFINITY)], format!("{head}a_total +Inf\n")),
            (vec![Sample::new(vec![], 1e10)], format!("{head}a_total 10000000000\n")),
            (
                vec![Sample::new(label("x"), 1.0), Sample::new(label("y"), 2.0)],
                format!("{head}a_total{{of=\"x\"}} 1\na_total{{of=\"y\"}} 2\n"),
            ),
            (
                vec![Sample::new(label("a\"b\\c\nd"), 1.0)],
                format!("{head}a_total{{of=\"a\\\"b\\\\c\\nd\"}} 1\n"),
            ),
            (
                vec![Sample::new(vec![("of", "x".to_owned()), ("as", String::new())], 1.0)],
                format!("{head}a_total{{of=\"x\",as=\"\"}} 1\n"),
            ),
        ] {
            assert_eq!(render(&[family(samples)]), want);
        }
        let two = Family {
            name: "b",
            help: "One \\ line\nonly.",
            kind: Kind::Gauge,
            samples: vec![Sample::new(vec![], -1.0)],
        };
        assert_eq!(render(&[family(vec![]), two]), "# HELP b One \\\\ line\\nonly.\n# TYPE b gauge\nb -1\n");
    }
}
