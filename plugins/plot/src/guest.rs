//! Functions of `wit/plot.wit`.

use crate::chart::{self, Chart};
use crate::draw::Words;
use crate::picture;

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::hotcell::plot::plot::{Bars, Format, Guest, Options, Picture, Series};
use hotcell::tool::blob::Blob;

struct Plugin;
export!(Plugin);

fn answer(chart: &Chart, options: Option<Options>) -> Result<Picture, String> {
    let none = Options {
        title: None,
        x_label: None,
        y_label: None,
        width: None,
        height: None,
        format: None,
        path: None,
    };
    let options = options.unwrap_or(none);
    let (width, height) = (options.width.unwrap_or(800), options.height.unwrap_or(500));
    if !(200..=2000).contains(&width) || !(150..=2000).contains(&height) {
        return Err(format!("{width} by {height} pixels; from 200 by 150 to 2000 by 2000 can be drawn"));
    }
    let ending = options.path.as_ref().is_some_and(|path| path.to_ascii_lowercase().ends_with(".png"));
    let format = options.format.unwrap_or(if ending { Format::Png } else { Format::Svg });
    let words = Words { title: options.title, x: options.x_label, y: options.y_label };
    let (mut svg, mut png) = (None, None);
    match format {
        Format::Svg => svg = Some(picture::svg(chart, &words, (width, height))?),
        Format::Png => png = Some(picture::png(chart, &words, (width, height))?),
    }
    let path = match options.path {
        None => None,
        Some(given) => {
            let path = folders::path(&given)?;
            let content = svg.take().map(String::into_bytes).or_else(|| png.take()).unwrap_or_default();
            std::fs::write(&path, content).map_err(|e| folders::failed(&path, &e))?;
            Some(path)
        }
    };
    Ok(Picture { format, width, height, svg, png: png.map(|bytes| Blob::new(&bytes)), path })
}

fn series(given: Vec<Series>) -> Result<Vec<chart::Series>, String> {
    chart::series(given.into_iter().map(|s| (s.name, s.x, s.y)).collect())
}

impl Guest for Plugin {
    fn line(given: Vec<Series>, options: Option<Options>) -> Result<Picture, String> {
        answer(&Chart::Lines(series(given)?), options)
    }

    fn scatter(given: Vec<Series>, options: Option<Options>) -> Result<Picture, String> {
        answer(&Chart::Points(series(given)?), options)
    }

    fn bar(labels: Vec<String>, bars: Vec<Bars>, options: Option<Options>) -> Result<Picture, String> {
        let bars = bars.into_iter().map(|b| (b.name, b.values)).collect();
        answer(&chart::bars(labels, bars)?, options)
    }

    fn histogram(values: Vec<f64>, bins: Option<u32>, options: Option<Options>) -> Result<Picture, String> {
        answer(&chart::histogram(&values, bins)?, options)
    }

    fn heatmap(
        rows: Vec<Vec<f64>>,
        columns: Option<Vec<String>>,
        names: Option<Vec<String>>,
        options: Option<Options>,
    ) -> Result<Picture, String> {
        answer(&chart::heat(rows, columns.unwrap_or_default(), names.unwrap_or_default())?, options)
    }
}
