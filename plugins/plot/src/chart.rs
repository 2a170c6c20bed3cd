//! Data of a chart: checked, and with its ranges.

use std::ops::Range;

/// A chart.
#[derive(Debug, PartialEq)]
pub(crate) enum Chart {
    Lines(Vec<Series>),
    Points(Vec<Series>),
    Bars { labels: Vec<String>, bars: Vec<Series> },
    Histogram { counts: Vec<u32>, range: Range<f64> },
    Heat { rows: Vec<Vec<f64>>, columns: Vec<String>, names: Vec<String> },
}

/// Points with a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: Option<String>,
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
}

/// Maximum number of points; a picture could not show more.
const MOST_POINTS: usize = 100_000;

fn finite(what: &str, numbers: &[f64]) -> Result<(), String> {
    match numbers.iter().position(|n| !n.is_finite() || n.abs() > 1e300) {
        Some(index) => Err(format!("{what}: number {} cannot be drawn", index + 1)),
        None => Ok(()),
    }
}

/// Name, optional x values, and y values.
pub(crate) type Given = (Option<String>, Option<Vec<f64>>, Vec<f64>);

/// Checks series, and numbers points without x values.
pub(crate) fn series(given: Vec<Given>) -> Result<Vec<Series>, String> {
    if given.is_empty() || given.len() > 20 {
        return Err(format!("{} series; from 1 to 20 can be drawn", given.len()));
    }
    let mut out = Vec::new();
    for (index, (name, x, y)) in (1..).zip(given) {
        let what = name.clone().unwrap_or_else(|| format!("series {index}"));
        let x = x.unwrap_or_else(|| (1..=y.len()).map(|n| n as f64).collect());
        if y.is_empty() || y.len() > MOST_POINTS || x.len() != y.len() {
            return Err(format!(
                "{what}: {} x and {} y; wanted as many of both, from 1 to {MOST_POINTS}",
                x.len(),
                y.len()
            ));
        }
        finite(&what, &x)?;
        finite(&what, &y)?;
        out.push(Series { name, x, y });
    }
    Ok(out)
}

/// Checks bars.
pub(crate) fn bars(labels: Vec<String>, bars: Vec<(Option<String>, Vec<f64>)>) -> Result<Chart, String> {
    if labels.is_empty() || labels.len() > 200 || bars.is_empty() || bars.len() > 10 {
        return Err(format!(
            "{} labels with {} bars each; from 1 to 200 with 1 to 10 can be drawn",
            labels.len(),
            bars.len()
        ));
    }
    let mut out = Vec::new();
    for (name, values) in bars {
        let what = name.clone().unwrap_or_else(|| "bars".to_owned());
        if values.len() != labels.len() {
            return Err(format!("{what}: {} values for {} labels", values.len(), labels.len()));
        }
        finite(&what, &values)?;
        out.push(Series { name, x: Vec::new(), y: values });
    }
    Ok(Chart::Bars { labels, bars: out })
}

/// Counts values in bins of equal width.
pub(crate) fn histogram(values: &[f64], bins: Option<u32>) -> Result<Chart, String> {
    if values.is_empty() || values.len() > MOST_POINTS {
        return Err(format!("{} values; from 1 to {MOST_POINTS} can be drawn", values.len()));
    }
    finite("values", values)?;
    let bins = bins.unwrap_or_else(|| (values.len() as f64).sqrt().ceil().min(50.0) as u32);
    if !(1..=200).contains(&bins) {
        return Err(format!("{bins} bins; from 1 to 200 can be drawn"));
    }
    let range = span(values.iter().copied(), 0.0);
    let mut counts = vec![0; bins as usize];
    for value in values {
        let place = (value - range.start) / (range.end - range.start) * f64::from(bins);
        counts[(place as usize).min(bins as usize - 1)] += 1;
    }
    Ok(Chart::Histogram { counts, range })
}

/// Checks a table of numbers.
pub(crate) fn heat(rows: Vec<Vec<f64>>, columns: Vec<String>, names: Vec<String>) -> Result<Chart, String> {
    let width = rows.first().map_or(0, Vec::len);
    if rows.len() > 200 || width == 0 || width > 200 {
        return Err(format!(
            "{} rows of {width} numbers; from 1 by 1 to 200 by 200 can be drawn",
            rows.len()
        ));
    }
    for (index, row) in (1..).zip(&rows) {
        if row.len() != width {
            return Err(format!("row {index} has {} numbers and the first one {width}", row.len()));
        }
        finite(&format!("row {index}"), row)?;
    }
    if (!columns.is_empty() && columns.len() != width) || (!names.is_empty() && names.len() != rows.len()) {
        return Err(format!(
            "{} columns and {} names for {} rows of {width} numbers",
            columns.len(),
            names.len(),
            rows.len()
        ));
    }
    Ok(Chart::Heat { rows, columns, names })
}

/// Range from the smallest to the largest value, with a margin (a fraction of it) on either side; never
/// empty.
pub(crate) fn span(values: impl Iterator<Item = f64>, margin: f64) -> Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low == high {
        let half = if low == 0.0 { 0.5 } else { low.abs() / 2.0 };
        return low - half..high + half;
    }
    let margin = (high - low) * margin;
    low - margin..high + margin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_count_every_value_once() {
        let Chart::Histogram { counts, range } = histogram(&[0.0, 1.0, 1.0, 3.9, 4.0], Some(4)).unwrap()
        else {
            panic!()
        };
        assert_eq!((counts, range), (vec![1, 2, 0, 2], 0.0..4.0));
        let Chart::Histogram { counts, .. } = histogram(&[5.0; 9], None).unwrap() else { panic!() };
        assert_eq!((counts.len(), counts.iter().sum::<u32>()), (3, 9));
        assert!(histogram(&[], None).is_err());
        assert!(histogram(&[f64::NAN], None).unwrap_err().contains("number 1"));
        assert!(histogram(&[1.0], Some(0)).is_err());
    }

    #[test]
    fn invalid_series_are_explained() {
        assert!(series(vec![]).is_err());
        assert!(
            series(vec![(Some("a".into()), Some(vec![1.0]), vec![1.0, 2.0])])
                .unwrap_err()
                .starts_with("a: 1 x and 2 y")
        );
        assert!(
            series(vec![(None, None, vec![f64::INFINITY])]).unwrap_err().starts_with("series 1: number 1")
        );
        assert_eq!(series(vec![(None, None, vec![7.0, 8.0])]).unwrap()[0].x, [1.0, 2.0]);
        assert!(bars(vec!["a".into()], vec![(None, vec![])]).unwrap_err().contains("0 values for 1 labels"));
        assert!(heat(vec![vec![1.0], vec![]], vec![], vec![]).unwrap_err().contains("row 2 has 0"));
        assert!(heat(vec![vec![1.0]], vec!["a".into(), "b".into()], vec![]).is_err());
        assert!(heat(vec![], vec![], vec![]).is_err());
    }

    #[test]
    fn spans_are_never_empty() {
        assert_eq!(span([1.0, 3.0].into_iter(), 0.5), 0.0..4.0);
        assert_eq!(span([0.0].into_iter(), 0.5), -0.5..0.5);
        assert_eq!(span([-4.0].into_iter(), 0.5), -6.0..-2.0);
    }
}
