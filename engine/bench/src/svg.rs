//! A bar chart of the durations, black on white, suitable for printing. Text is escaped and cut to length, so
//! that nothing exceeds the page.

use std::collections::BTreeMap;
use std::fmt::Write;

use hotcell_sandbox::text::html::escape_into;

use crate::report::Report;
use crate::targets::START;

const WIDTH: f64 = 800.0;
const MARGIN: f64 = 24.0;
/// Position at which bars begin, with names to the left.
const BARS_LEFT: f64 = 250.0;
/// Maximum length of a bar, with its number to the right.
const MAX_BAR_WIDTH: f64 = 440.0;
const LINE_HEIGHT: f64 = 18.0;
/// Maximum characters of a name, and of a line across the page.
const MAX_NAME_CHARS: usize = 32;
const MAX_LINE_CHARS: usize = 108;
/// Maximum number of bars in a panel; the longest are shown.
const MAX_BARS: usize = 24;

/// A group of bars with one scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Title.
    pub title: String,
    /// How the values were measured.
    pub note: String,
    /// Names and microseconds.
    pub bars: Vec<(String, f64)>,
}

/// The panels of a report: starts, a cold run, a hot run, and the floor without each step.
#[must_use]
pub fn panels(report: &Report) -> Vec<Panel> {
    let starts = report.rows.iter().filter(|row| row.what == START || row.what.starts_with('…'));
    let starts = starts.filter_map(|row| {
        let name = if row.what == START {
            row.variant.clone()
        } else {
            format!("{}, {}", row.variant, &row.what[4..])
        };
        Some((name, row.p50_us?))
    });
    let all = [
        Panel {
            title: format!("{START}, median"),
            note: "All in turn; from the request to the end that is known.".to_owned(),
            bars: starts.collect(),
        },
        Panel {
            title: "A cold run, phase by phase and step by step".to_owned(),
            note: "Medians of the marks that hotcell records. Steps of two processes overlap: they do not add up.".to_owned(),
            bars: of_a_run(&report.steps_us),
        },
        Panel {
            title: "A hot run, phase by phase".to_owned(),
            note: "Medians of the marks that hotcell records, from the request to the outcome.".to_owned(),
            bars: of_a_run(&report.hot_steps_us),
        },
        Panel {
            title: "What a step costs the kernel".to_owned(),
            note: "Knocked out: how much shorter the C floor's median is without it. Below 0 is noise.".to_owned(),
            bars: longest(report.floor_without_us.iter().skip(1).cloned().collect()),
        },
    ];
    all.into_iter().filter(|panel| !panel.bars.is_empty()).collect()
}

/// Phases in order, then steps, the longest first.
fn of_a_run(steps: &BTreeMap<String, f64>) -> Vec<(String, f64)> {
    let phases = ["queue", "setup", "exec", "run", "collect", "total"];
    let phase = |name: &str| Some((name.to_owned(), *steps.get(&format!("({name})"))?));
    let mut bars: Vec<_> = phases.into_iter().filter_map(phase).collect();
    let marked = steps.iter().filter(|(name, us)| !name.starts_with('(') && **us >= 1.0);
    bars.extend(longest(marked.map(|(name, us)| (format!("· {name}"), *us)).collect()));
    bars
}

fn longest(mut bars: Vec<(String, f64)>) -> Vec<(String, f64)> {
    bars.sort_by(|a, b| b.1.total_cmp(&a.1));
    bars.truncate(MAX_BARS);
    bars
}

/// The chart of a report.
#[must_use]
pub fn picture(report: &Report) -> String {
    let h = &report.host;
    let about =
        format!("{} x {}, Linux {}, {}, load {:.2}", h.processors, h.processor, h.kernel, h.user, h.load);
    draw("hotcell bench: where the time goes", &about, &panels(report))
}

/// Draws panels below each other.
#[must_use]
pub fn draw(title: &str, about: &str, panels: &[Panel]) -> String {
    let mut body = String::new();
    let mut y = MARGIN + LINE_HEIGHT;
    text(&mut body, MARGIN, y, "bold 18px", "start", &cut(title, MAX_LINE_CHARS * 2 / 3));
    y += LINE_HEIGHT * 1.3;
    text(&mut body, MARGIN, y, "12px", "start", &cut(about, MAX_LINE_CHARS));
    for panel in panels {
        y += LINE_HEIGHT * 2.2;
        text(&mut body, MARGIN, y, "bold 14px", "start", &cut(&panel.title, MAX_LINE_CHARS * 4 / 5));
        y += LINE_HEIGHT;
        text(&mut body, MARGIN, y, "italic 12px", "start", &cut(&panel.note, MAX_LINE_CHARS));
        let most = panel.bars.iter().map(|(_, us)| *us).fold(0.0, f64::max);
        for (name, us) in &panel.bars {
            y += LINE_HEIGHT;
            text(&mut body, BARS_LEFT - 8.0, y, "12px", "end", &cut(name, MAX_NAME_CHARS));
            let width = if most > 0.0 { (us.max(0.0) / most * MAX_BAR_WIDTH).max(0.5) } else { 0.5 };
            let _ = writeln!(
                body,
                "<rect x=\"{BARS_LEFT}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"#555\"/>",
                y - LINE_HEIGHT * 0.65,
                LINE_HEIGHT * 0.72
            );
            text(&mut body, BARS_LEFT + width + 6.0, y, "12px", "start", &format!("{us:.0} µs"));
        }
    }
    let height = y + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" viewBox=\"0 0 {WIDTH} {height:.0}\">\n\
         <rect x=\"0\" y=\"0\" width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

fn text(out: &mut String, x: f64, y: f64, font: &str, anchor: &str, words: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" style=\"font: {font} sans-serif\" text-anchor=\"{anchor}\">{}</text>",
        escape(words)
    );
}

fn cut(words: &str, most: usize) -> String {
    if words.chars().count() <= most {
        return words.to_owned();
    }
    words.chars().take(most - 1).chain(['…']).collect()
}

/// Escapes text for XML, and replaces characters that XML does not allow.
fn escape(words: &str) -> String {
    let is_outside = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}');
    let mut out = String::with_capacity(words.len());
    escape_into(&words.replace(is_outside, "\u{fffd}"), &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;
    use crate::host::HostRow;

    #[test]
    fn text_is_escaped() {
        for (words, want) in [
            ("a<b> & \"c\" 'd'", "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;"),
            ("\0\x1b\n", "\u{fffd}\u{fffd}\u{fffd}"),
            ("µs …", "µs …"),
        ] {
            assert_eq!(escape(words), want);
        }
        assert_eq!((cut("abc", 3), cut("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
    }

    /// Checks that every shape and text of a chart lies on the page.
    fn check(picture: &str) -> usize {
        let mut reader = quick_xml::Reader::from_str(picture);
        let mut page = (0.0, 0.0);
        let mut texts = 0;
        loop {
            let event = reader.read_event().expect("well-formed");
            let (quick_xml::events::Event::Start(tag) | quick_xml::events::Event::Empty(tag)) = event else {
                if event == quick_xml::events::Event::Eof {
                    return texts;
                }
                continue;
            };
            let of = |name: &str| {
                let value = tag.try_get_attribute(name).expect("an attribute");
                value.map_or(0.0, |v| v.value.parse::<f64>().expect("a number"))
            };
            match tag.name().as_ref() {
                "svg" => page = (of("width"), of("height")),
                "rect" => {
                    assert!(of("x") + of("width") <= page.0 && of("y") + of("height") <= page.1, "{tag:?}");
                }
                "text" => {
                    texts += 1;
                    assert!(
                        of("x") >= MARGIN - 1.0 && of("x") <= page.0 - 60.0 && of("y") < page.1,
                        "{tag:?}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn svg_text_stays_within_page() {
        let long = "<&\"long\u{1b}".repeat(40);
        let bars = vec![(long.clone(), 1e12), ("below".to_owned(), -3.0), (String::new(), 0.0)];
        let panel = Panel { title: long.clone(), note: long.clone(), bars };
        let empty = Panel { title: String::new(), note: String::new(), bars: vec![("none".to_owned(), 0.0)] };
        assert_eq!(check(&draw(&long, &long, &[panel, empty])), 2 + 2 + 6 + 2 + 2);
    }

    #[test]
    fn report_has_panels_for_measured_rows() {
        let mut report = Report::new(HostRow::default());
        assert!(panels(&report).is_empty());
        assert_eq!(check(&picture(&report)), 2);
        let times = [1.0, 2.0].into_iter().collect();
        report.row(Row::of_times(START, "bare", &times));
        report.row(Row::of_times(crate::targets::BIND, "hot", &times));
        report.steps_us = [("(run)", 5.0), ("(queue)", 1.0), ("b", 2.0), ("c", 3.0), ("none", 0.0)]
            .map(|(name, us)| (name.to_owned(), us))
            .into();
        report.floor_without_us = [("nothing", 9.0), ("net_ns", 3.0), ("proc", 4.0)]
            .map(|(name, us)| (name.to_owned(), us))
            .to_vec();
        let names: Vec<Vec<String>> =
            panels(&report).into_iter().map(|p| p.bars.into_iter().map(|(name, _)| name).collect()).collect();
        assert_eq!(
            names,
            [
                vec!["bare", "hot, bound workspace"],
                vec!["queue", "run", "· c", "· b"],
                vec!["proc", "net_ns"]
            ]
        );
        check(&picture(&report));
    }
}
