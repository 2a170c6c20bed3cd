//! Draws a chart onto any backend.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::chart::{Chart, Series, span};

/// Texts of a chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    pub(crate) title: Option<String>,
    pub(crate) x: Option<String>,
    pub(crate) y: Option<String>,
}

/// Colors that most people with color blindness can tell apart too.
const COLORS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(230, 120, 20),
    RGBColor(40, 150, 70),
    RGBColor(200, 50, 60),
    RGBColor(130, 90, 180),
    RGBColor(130, 90, 70),
    RGBColor(215, 110, 180),
    RGBColor(90, 90, 90),
];
/// Colors from the smallest to the largest value, in equal steps of lightness.
const HEAT: [(f64, f64, f64); 5] =
    [(68.0, 1.0, 84.0), (59.0, 82.0, 139.0), (33.0, 145.0, 140.0), (94.0, 201.0, 98.0), (253.0, 231.0, 37.0)];

type Area<DB> = DrawingArea<DB, Shift>;
type Context<'a, DB> = ChartContext<'a, DB, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn color(index: usize) -> RGBColor {
    COLORS[index % COLORS.len()]
}

/// Color at a fraction of the range, from 0 to 1.
fn heat(part: f64) -> RGBColor {
    let place = part.clamp(0.0, 1.0) * (HEAT.len() - 1) as f64;
    let below = (place as usize).min(HEAT.len() - 2);
    let ((r0, g0, b0), (r1, g1, b1), rest) = (HEAT[below], HEAT[below + 1], place - below as f64);
    let mix = |a: f64, b: f64| (a + (b - a) * rest).round() as u8;
    RGBColor(mix(r0, r1), mix(g0, g1), mix(b0, b1))
}

/// Formats a number at an axis.
fn tick(value: &f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e7).contains(&size) {
        return format!("{value:e}");
    }
    let text = format!("{value:.4}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

fn cut(label: &str) -> String {
    if label.chars().count() > 20 {
        label.chars().take(19).chain(['…']).collect()
    } else {
        label.to_owned()
    }
}

/// Draws a chart.
pub(crate) fn draw<DB: DrawingBackend>(area: &Area<DB>, chart: &Chart, words: &Words) -> Result<(), String> {
    area.fill(&WHITE).map_err(failed)?;
    match chart {
        Chart::Lines(series) | Chart::Points(series) => {
            let x = span(series.iter().flat_map(|s| s.x.iter().copied()), 0.03);
            let y = span(series.iter().flat_map(|s| s.y.iter().copied()), 0.05);
            let mut context = context(area, words, x, y, &[], &[])?;
            for (index, one) in series.iter().enumerate() {
                let points = one.x.iter().copied().zip(one.y.iter().copied());
                let color = color(index);
                if matches!(chart, Chart::Lines(_)) && one.y.len() > 1 {
                    context.draw_series(LineSeries::new(points, color.stroke_width(2))).map_err(failed)?;
                } else {
                    context
                        .draw_series(points.map(|at| Circle::new(at, 3, color.filled())))
                        .map_err(failed)?;
                }
            }
            legend(area, series)
        }
        Chart::Bars { labels, bars } => {
            // Bars begin at zero.
            let values = bars.iter().flat_map(|bars| bars.y.iter().copied()).chain([0.0]);
            let mut y = span(values, 0.05);
            if bars.iter().all(|bars| bars.y.iter().all(|v| *v >= 0.0)) {
                y.start = 0.0;
            }
            let mut context = context(area, words, 0.0..labels.len() as f64, y, labels, &[])?;
            let width = 0.8 / bars.len() as f64;
            for (index, one) in bars.iter().enumerate() {
                let rectangles = one.y.iter().enumerate().map(|(place, value)| {
                    let left = place as f64 + 0.1 + width * index as f64;
                    Rectangle::new([(left, 0.0), (left + width * 0.95, *value)], color(index).filled())
                });
                context.draw_series(rectangles).map_err(failed)?;
            }
            legend(area, bars)
        }
        Chart::Histogram { counts, range } => {
            let most = counts.iter().copied().max().unwrap_or(1).max(1);
            let mut context = context(area, words, range.clone(), 0.0..f64::from(most) * 1.05, &[], &[])?;
            let width = (range.end - range.start) / counts.len() as f64;
            let rectangles = counts.iter().enumerate().map(|(place, count)| {
                let left = range.start + width * place as f64;
                Rectangle::new([(left, 0.0), (left + width * 0.97, f64::from(*count))], color(0).filled())
            });
            context.draw_series(rectangles).map_err(failed)?;
            Ok(())
        }
        Chart::Heat { rows, columns, names } => {
            let (width, height) = (rows[0].len() as f64, rows.len() as f64);
            let (picture, scale) = area.split_horizontally(area.dim_in_pixel().0.saturating_sub(90));
            let upwards: Vec<String> = names.iter().rev().cloned().collect();
            let mut context = context(&picture, words, 0.0..width, 0.0..height, columns, &upwards)?;
            let range = span(rows.iter().flatten().copied(), 0.0);
            let cells = rows.iter().enumerate().flat_map(|(row, values)| {
                let top = height - row as f64;
                let range = range.clone();
                values.iter().enumerate().map(move |(column, value)| {
                    let part = (value - range.start) / (range.end - range.start);
                    let left = column as f64;
                    Rectangle::new([(left, top - 1.0), (left + 1.0, top)], heat(part).filled())
                })
            });
            context.draw_series(cells).map_err(failed)?;
            colors(&scale, &range)
        }
    }
}

fn failed<E: std::fmt::Display>(error: E) -> String {
    format!("it cannot be drawn: {error}")
}

/// Draws title, axes and grid. With labels, an axis has them at the middle of 0..1, 1..2 and so on, otherwise
/// numbers.
fn context<'a, DB: DrawingBackend>(
    area: &'a Area<DB>,
    words: &Words,
    x: Range<f64>,
    y: Range<f64>,
    x_labels: &[String],
    y_labels: &[String],
) -> Result<Context<'a, DB>, String> {
    let longest =
        |labels: &[String]| labels.iter().map(|label| cut(label).chars().count()).max().unwrap_or(0) as u32;
    let (width, _) = area.dim_in_pixel();
    // Labels that do not fit side by side are rotated.
    let turned = longest(x_labels) * 8 * x_labels.len() as u32 > width.saturating_sub(90);
    let below = if turned { longest(x_labels) * 8 + 30 } else { 48 };
    let before = if y_labels.is_empty() { 70 } else { longest(y_labels) * 8 + 34 };
    let mut builder = ChartBuilder::on(area);
    builder.margin(12).x_label_area_size(below).y_label_area_size(before);
    if let Some(title) = &words.title {
        builder.caption(title, ("sans-serif", 20));
    }
    let mut context = builder.build_cartesian_2d(x, y).map_err(failed)?;
    let mut mesh = context.configure_mesh();
    mesh.label_style(("sans-serif", 13)).axis_desc_style(("sans-serif", 14));
    mesh.x_label_formatter(&tick).y_label_formatter(&tick).light_line_style(TRANSPARENT);
    mesh.bold_line_style(RGBColor(225, 225, 225));
    if !x_labels.is_empty() {
        mesh.disable_x_mesh().x_labels(0);
    }
    if !y_labels.is_empty() {
        mesh.disable_y_mesh().y_labels(0);
    }
    mesh.x_desc(words.x.as_deref().unwrap_or("")).y_desc(words.y.as_deref().unwrap_or(""));
    mesh.draw().map_err(failed)?;
    let style = TextStyle::from(("sans-serif", 13)).color(&BLACK);
    let (pixels_x, pixels_y) = context.plotting_area().get_pixel_range();
    let (left, top) = area.get_base_pixel();
    // Of many labels, only every second, third… is drawn.
    let step = |count: usize, room: i32, each: i32| (count as i32 * each / room.max(1) + 1) as usize;
    let skip = step(x_labels.len(), pixels_x.end - pixels_x.start, if turned { 14 } else { 1 });
    for (place, label) in x_labels.iter().enumerate().step_by(skip) {
        let slot = f64::from(pixels_x.end - pixels_x.start) / x_labels.len() as f64;
        let middle = pixels_x.start + (slot * (place as f64 + 0.5)) as i32 - left;
        let style = if turned {
            style.transform(FontTransform::Rotate270).pos(Pos::new(HPos::Right, VPos::Center))
        } else {
            style.pos(Pos::new(HPos::Center, VPos::Top))
        };
        area.draw(&Text::new(cut(label), (middle, pixels_y.end - top + 8), style)).map_err(failed)?;
    }
    let skip = step(y_labels.len(), pixels_y.end - pixels_y.start, 14);
    for (place, label) in y_labels.iter().enumerate().step_by(skip) {
        let slot = f64::from(pixels_y.end - pixels_y.start) / y_labels.len() as f64;
        let middle = pixels_y.end - (slot * (place as f64 + 0.5)) as i32 - top;
        let style = style.pos(Pos::new(HPos::Right, VPos::Center));
        area.draw(&Text::new(cut(label), (pixels_x.start - left - 8, middle), style)).map_err(failed)?;
    }
    Ok(context)
}

/// Draws the names of series in the upper right corner, if there are any.
fn legend<DB: DrawingBackend>(area: &Area<DB>, series: &[Series]) -> Result<(), String> {
    let named: Vec<_> =
        series.iter().enumerate().filter_map(|(i, s)| Some((i, cut(s.name.as_deref()?)))).collect();
    let Some(longest) = named.iter().map(|(_, name)| name.chars().count() as i32).max() else {
        return Ok(());
    };
    let (width, _) = area.dim_in_pixel();
    let (left, top) = (width as i32 - longest * 8 - 48, 48);
    let corner = (left + longest * 8 + 30, top + named.len() as i32 * 18 + 6);
    area.draw(&Rectangle::new([(left, top), corner], WHITE.mix(0.85).filled())).map_err(failed)?;
    area.draw(&Rectangle::new([(left, top), corner], RGBColor(200, 200, 200).stroke_width(1)))
        .map_err(failed)?;
    let style = TextStyle::from(("sans-serif", 13)).color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
    for (line, (index, name)) in (0..).zip(named) {
        let middle = top + 12 + line * 18;
        let patch = [(left + 6, middle - 5), (left + 16, middle + 5)];
        area.draw(&Rectangle::new(patch, color(index).filled())).map_err(failed)?;
        area.draw(&Text::new(name, (left + 22, middle), style.clone())).map_err(failed)?;
    }
    Ok(())
}

/// Draws the color scale of a heat map.
fn colors<DB: DrawingBackend>(area: &Area<DB>, range: &Range<f64>) -> Result<(), String> {
    let (_, height) = area.dim_in_pixel();
    let (top, bottom) = (40, (height as i32 - 60).max(60));
    for y in top..bottom {
        let part = f64::from(bottom - y) / f64::from(bottom - top);
        area.draw(&Rectangle::new([(4, y), (20, y + 1)], heat(part).filled())).map_err(failed)?;
    }
    let style = TextStyle::from(("sans-serif", 12)).color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
    for (part, y) in [(1.0, top), (0.5, (top + bottom) / 2), (0.0, bottom)] {
        let value = range.start + (range.end - range.start) * part;
        area.draw(&Text::new(tick(&value), (25, y), style.clone())).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short() {
        for (value, want) in
            [(0.1 + 0.2, "0.3"), (-0.0, "0"), (1_500.0, "1500"), (1e9, "1e9"), (1e-7, "1e-7"), (-2.5, "-2.5")]
        {
            assert_eq!(tick(&value), want);
        }
        assert_eq!((cut("short"), cut(&"ä".repeat(30)).chars().count()), ("short".into(), 20));
    }

    #[test]
    fn colors_go_from_dark_to_bright() {
        assert_eq!(
            (heat(0.0), heat(1.0), heat(0.5)),
            (RGBColor(68, 1, 84), RGBColor(253, 231, 37), RGBColor(33, 145, 140))
        );
        assert_eq!(heat(9.0), heat(1.0));
    }
}
