//! Bars as SVG, where looking is quicker than reading. The numbers stand in the table beside them.

use maud::{Markup, html};

const WIDTH: usize = 600;
const HEIGHT: f64 = 80.0;
/// Maximum number of bars; the last ones are shown.
pub const MAX_BARS: usize = 60;

/// A bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Value, not negative.
    pub value: f64,
    /// Label, shown on hovering; hotcell's own words and numbers only.
    pub label: String,
    /// Drawn as a failure.
    pub bad: bool,
}

/// Height of a bar; a small value is still seen.
fn height(value: f64, most: f64) -> f64 {
    if most <= 0.0 || value <= 0.0 { 0.0 } else { (value / most * HEIGHT).clamp(1.0, HEIGHT) }
}

/// A chart of the last bars, with a label for those who do not see it. Nothing for less than two bars.
pub fn bars(label: &str, unit: &str, all: &[Bar]) -> Markup {
    let shown = &all[all.len().saturating_sub(MAX_BARS)..];
    if shown.len() < 2 {
        return html! {};
    }
    let most = shown.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let step = WIDTH / shown.len();
    html! {
        figure {
            figcaption { (label) ": at most " (unit) }
            svg role="img" aria-label=(format!("{label}: {} bars, at most {unit}", shown.len()))
                viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" {
                @for (at, bar) in shown.iter().enumerate() {
                    @let tall = height(bar.value, most);
                    rect class=[bar.bad.then_some("bad")] x=(at * step) y=(format!("{:.1}", HEIGHT - tall))
                        width=(step.saturating_sub(1).max(1)) height=(format!("{tall:.1}")) {
                        title { (bar.label) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_bounded() {
        for (value, most, want) in
            [(0.0, 0.0, 0.0), (0.0, 5.0, 0.0), (5.0, 5.0, HEIGHT), (0.001, 5.0, 1.0), (2.5, 5.0, 40.0)]
        {
            assert!((height(value, most) - want).abs() < 0.01, "{value} {most}");
        }
        let bar = |n: u32| Bar { value: f64::from(n), label: format!("{n}"), bad: n == 3 };
        assert!(bars("a", "b", &[bar(1)]).into_string().is_empty());
        let many: Vec<_> = (0..500).map(bar).collect();
        let html = bars("a", "b", &many).into_string();
        assert_eq!(html.matches("<rect").count(), MAX_BARS);
        assert!(html.contains("<title>499</title>") && !html.contains("<title>439</title>"));
    }
}
