//! Renders a chart as the contents of a file.

use plotters::prelude::{IntoDrawingArea, SVGBackend};

use crate::chart::Chart;
use crate::draw::{Words, draw};
use crate::text::Bitmap;

/// Renders a chart as SVG.
pub(crate) fn svg(chart: &Chart, words: &Words, size: (u32, u32)) -> Result<String, String> {
    let mut out = String::new();
    {
        let area = SVGBackend::with_string(&mut out, size).into_drawing_area();
        draw(&area, chart, words)?;
        area.present().map_err(|e| e.to_string())?;
    }
    Ok(out)
}

/// Renders a chart as PNG.
pub(crate) fn png(chart: &Chart, words: &Words, size: (u32, u32)) -> Result<Vec<u8>, String> {
    let mut pixels = vec![0; size.0 as usize * size.1 as usize * 3];
    {
        let area = Bitmap::new(&mut pixels, size)?.into_drawing_area();
        draw(&area, chart, words)?;
        area.present().map_err(|e| e.to_string())?;
    }
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(|e| e.to_string())?;
    writer.write_image_data(&pixels).map_err(|e| e.to_string())?;
    writer.finish().map_err(|e| e.to_string())?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{bars, heat, histogram, series};

    fn charts() -> Vec<(&'static str, Chart)> {
        let two = || {
            series(vec![
                (Some("a".into()), None, vec![1.0, 3.0, 2.0]),
                (Some("b".into()), None, vec![2.0, 1.0, 4.0]),
            ])
        };
        let labels = ["north", "south", "a rather long name of a place"].map(str::to_owned).to_vec();
        vec![
            ("line", Chart::Lines(two().unwrap())),
            ("scatter", Chart::Points(two().unwrap())),
            (
                "bar",
                bars(
                    labels.clone(),
                    vec![(Some("x".into()), vec![1.0, -2.0, 3.0]), (None, vec![2.0, 2.0, 2.0])],
                )
                .unwrap(),
            ),
            ("histogram", histogram(&[1.0, 2.0, 2.0, 3.0, 9.0], None).unwrap()),
            (
                "heat",
                heat(vec![vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0]], labels, vec!["p".into(), "q".into()])
                    .unwrap(),
            ),
        ]
    }

    #[test]
    fn charts_contain_their_labels() {
        let words =
            Words { title: Some("Title <&>".into()), x: Some("across".into()), y: Some("upwards".into()) };
        for (kind, chart) in charts() {
            let svg = svg(&chart, &words, (640, 400)).unwrap();
            for word in ["<svg ", "Title &lt;&amp;&gt;", "across", "upwards", "</svg>"] {
                assert!(svg.contains(word), "{kind}: {word}");
            }
            let bytes = png(&chart, &words, (640, 400)).unwrap();
            if let Some(folder) = std::env::var_os("PLOT_SHOW") {
                std::fs::write(std::path::Path::new(&folder).join(format!("{kind}.png")), &bytes).unwrap();
            }
            let mut reader = png::Decoder::new(bytes.as_slice()).read_info().unwrap();
            let mut pixels = vec![0; reader.output_buffer_size()];
            reader.next_frame(&mut pixels).unwrap();
            let dark = |from: usize, to: usize| {
                pixels[from * 640 * 3..to * 640 * 3].chunks(3).filter(|p| p.iter().all(|c| *c < 100)).count()
            };
            assert!(dark(0, 40) > 100, "{kind}: the title is written");
            assert!(dark(340, 400) > 30, "{kind}: the axis is written");
        }
    }

    #[test]
    fn extreme_sizes_are_drawn() {
        for (_, chart) in charts() {
            for size in [(200, 150), (2000, 2000)] {
                assert!(png(&chart, &Words::default(), size).is_ok());
            }
        }
        let one = Chart::Lines(series(vec![(None, None, vec![1e300])]).unwrap());
        assert!(svg(&one, &Words::default(), (800, 500)).is_ok());
    }
}
