//! Values of cells: a cell that parses as a number counts as one.

use std::cmp::Ordering;

/// Number in a cell. `inf` and `nan` are not accepted, since they are usually words.
pub(crate) fn number(cell: &str) -> Option<f64> {
    let cell = cell.trim();
    let digits = cell.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
    digits.then(|| cell.parse().ok()).flatten().filter(|n: &f64| n.is_finite())
}

/// Whole number in a cell, with all its digits: an `f64` has no more than 15.
pub(crate) fn whole(cell: &str) -> Option<i128> {
    cell.trim().parse().ok()
}

/// Exact sum of the numbers in cells; `None` when one of them has a fraction, or the sum is beyond 128 bits.
pub(crate) fn whole_sum<'a>(cells: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut numbers = cells.filter(|cell| number(cell).is_some());
    let sum = numbers.try_fold(0_i128, |sum, cell| sum.checked_add(whole(cell)?))?;
    Some(sum.to_string())
}

/// Orders numbers by value and before text; text by its characters.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    if let (Some(x), Some(y)) = (whole(a), whole(b)) {
        return x.cmp(&y);
    }
    match (number(a), number(b)) {
        (Some(x), Some(y)) => x.total_cmp(&y),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// A number as a cell.
pub(crate) fn text(number: f64) -> String {
    // In sums of decimal fractions, digits beyond the precision carry no information.
    let rounded = format!("{number:.12}");
    let short = rounded.trim_end_matches('0').trim_end_matches('.');
    if number.abs() >= 1e15 || (number != 0.0 && number.abs() < 1e-6) {
        format!("{number:e}")
    } else {
        short.to_owned()
    }
}

/// Statistics of some numbers, such as count and mean.
#[derive(Debug, Default)]
pub(crate) struct Numbers(pub(crate) Vec<f64>);

impl Numbers {
    pub(crate) fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.sum() / self.0.len() as f64)
    }

    /// The standard deviation of a sample.
    pub(crate) fn deviation(&self) -> Option<f64> {
        let mean = self.mean().filter(|_| self.0.len() > 1)?;
        let squares: f64 = self.0.iter().map(|x| (x - mean).powi(2)).sum();
        Some((squares / (self.0.len() - 1) as f64).sqrt())
    }

    pub(crate) fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            n if n % 2 == 1 => Some(sorted[middle]),
            _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_cells_are_recognised() {
        for (cell, want) in [
            ("1", Some(1.0)),
            (" -2.5e3 ", Some(-2500.0)),
            (".5", Some(0.5)),
            ("inf", None),
            ("nan", None),
            ("", None),
            ("1e999", None),
            ("1x", None),
        ] {
            assert_eq!(number(cell), want, "{cell}");
        }
        for (number, want) in [
            (3.0, "3"),
            (0.1 + 0.2, "0.3"),
            (-2.5, "-2.5"),
            (0.0, "0"),
            (1e20, "1e20"),
            (1e-9, "1e-9"),
            (100.0, "100"),
        ] {
            assert_eq!(text(number), want);
        }
        assert_eq!(compare("10", "9"), Ordering::Greater);
        assert_eq!(compare("9007199254740993", "9007199254740992"), Ordering::Greater);
        assert_eq!(compare("-9007199254740993", "1.5"), Ordering::Less);
        for (cells, want) in [
            (&["9007199254740993", "1", "x"][..], Some("9007199254740994")),
            (&["1", "-1"], Some("0")),
            (&["1", "0.5"], None),
            (&[], Some("0")),
            (&[&"9".repeat(38), &"9".repeat(38)], None),
        ] {
            assert_eq!(whole_sum(cells.iter().copied()).as_deref(), want, "{cells:?}");
        }
        assert_eq!(compare("10", "a"), Ordering::Less);
        assert_eq!(compare("b", "a"), Ordering::Greater);
    }

    #[test]
    fn statistics_are_those_of_a_sample() {
        let all = Numbers(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((all.sum(), all.mean(), all.median()), (10.0, Some(2.5), Some(2.5)));
        assert!((all.deviation().unwrap() - 1.290_994).abs() < 1e-6);
        assert_eq!(
            (Numbers(vec![]).mean(), Numbers(vec![1.0]).deviation(), Numbers(vec![]).median()),
            (None, None, None)
        );
    }
}
