//! The text format of Prometheus (version 0.0.4): metric families as lines. Pure.

use std::fmt::Write;

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A counter, which only increases.
    Counter,
    /// A value that can go up and down.
    Gauge,
    /// A distribution of durations.
    Histogram,
}

impl Kind {
    /// Name in the text format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One sample of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Suffix of the family's name: empty, or `_bucket`, `_sum` and `_count` of a histogram.
    pub suffix: &'static str,
    /// Labels and their values.
    pub labels: Vec<(&'static str, String)>,
    /// Value.
    pub value: f64,
}

impl Sample {
    /// A sample with these labels and no suffix.
    #[must_use]
    pub fn new(labels: Vec<(&'static str, String)>, value: f64) -> Self {
        Self { suffix: "", labels, value }
    }
}

/// Samples of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Name of the metric.
    pub name: &'static str,
    /// Description, one sentence.
    pub help: &'static str,
    /// Kind of the metric.
    pub kind: Kind,
    /// Samples.
    pub samples: Vec<Sample>,
}

/// Renders the families as text. Families without samples are left out.
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

/// Escapes a text for the format.
fn escaped(text: &str, quoted: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quoted { text.replace('"', "\\\"") } else { text }
}

/// Formats a number.
pub fn number(value: f64) -> String {
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
