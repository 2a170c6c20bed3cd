//! A screen as SVG, for documents. Text is escaped; nothing else of the program's reaches the file.

use std::fmt::Write as _;

use crate::screen::Screen;
use crate::style::{Colour, Style};

/// Size of a cell in units of the picture.
const CELL: (usize, usize) = (8, 17);
const EDGE: usize = 10;
const TEXT: (u8, u8, u8) = (0xd8, 0xde, 0xe9);
const BEHIND: (u8, u8, u8) = (0x1e, 0x22, 0x2a);
const BASE: [(u8, u8, u8); 16] = [
    (0x3b, 0x42, 0x52),
    (0xe0, 0x6c, 0x75),
    (0x98, 0xc3, 0x79),
    (0xe5, 0xc0, 0x7b),
    (0x61, 0xaf, 0xef),
    (0xc6, 0x78, 0xdd),
    (0x56, 0xb6, 0xc2),
    (0xd8, 0xde, 0xe9),
    (0x5c, 0x63, 0x70),
    (0xff, 0x7a, 0x85),
    (0xa9, 0xd9, 0x8b),
    (0xf2, 0xd0, 0x8c),
    (0x74, 0xbd, 0xff),
    (0xd7, 0x8d, 0xee),
    (0x6d, 0xcb, 0xd6),
    (0xff, 0xff, 0xff),
];

/// The picture.
#[must_use]
pub fn svg(screen: &Screen) -> String {
    let size = screen.size();
    let (width, height) =
        (usize::from(size.columns) * CELL.0 + 2 * EDGE, usize::from(size.rows) * CELL.1 + 2 * EDGE);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{}\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"13\" xml:space=\"preserve\">\n",
        hex(BEHIND)
    );
    let (mut behind, mut text) = (String::new(), String::new());
    for (row, line) in screen.lines().enumerate() {
        let mut from = 0;
        while from < line.len() {
            let mut style = line[from].style;
            let mut to = from + 1;
            while to < line.len() && line[to].style == style {
                to += 1;
            }
            if screen.has_cursor() && screen.cursor().0 == row {
                let at = screen.cursor().1;
                if at == from {
                    (to, style.inverse) = (from + 1, !style.inverse);
                } else if (from..to).contains(&at) {
                    to = at;
                }
            }
            let words: String = line[from..to].iter().flat_map(crate::grid::Cell::characters).collect();
            let (front, back) = colours(style);
            let (x, y) = (EDGE + from * CELL.0, EDGE + row * CELL.1);
            let wide = (to - from) * CELL.0;
            if back != BEHIND {
                let _ = writeln!(
                    behind,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{}\" fill=\"{}\"/>",
                    CELL.1,
                    hex(back)
                );
            }
            if !words.trim().is_empty() {
                let bold = if style.bold { " font-weight=\"bold\"" } else { "" };
                let lined = if style.underlined { " text-decoration=\"underline\"" } else { "" };
                let _ = writeln!(
                    text,
                    "<text x=\"{x}\" y=\"{}\" textLength=\"{wide}\" fill=\"{}\"{bold}{lined}>{}</text>",
                    y + 13,
                    hex(front),
                    escaped(&words)
                );
            }
            from = to;
        }
    }
    out.push_str(&behind);
    out.push_str(&text);
    out.push_str("</g>\n</svg>\n");
    out
}

fn colours(style: Style) -> ((u8, u8, u8), (u8, u8, u8)) {
    let mut front = of(style.text, TEXT);
    let back = of(style.behind, BEHIND);
    if style.faint {
        let half = |a: u8, b: u8| a / 2 + b / 2;
        front = (half(front.0, back.0), half(front.1, back.1), half(front.2, back.2));
    }
    if style.inverse { (back, front) } else { (front, back) }
}

fn of(colour: Colour, usual: (u8, u8, u8)) -> (u8, u8, u8) {
    match colour {
        Colour::Usual => usual,
        Colour::Rgb(red, green, blue) => (red, green, blue),
        Colour::Palette(index) => match index {
            0..=15 => BASE[usize::from(index)],
            // A cube of six levels, then greys.
            16..=231 => {
                let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
                let cube = index - 16;
                (level(cube / 36), level(cube / 6 % 6), level(cube % 6))
            }
            _ => {
                let grey = 8 + 10 * (index - 232);
                (grey, grey, grey)
            }
        },
    }
}

fn hex((red, green, blue): (u8, u8, u8)) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    #[test]
    fn text_is_escaped_and_coloured() {
        let mut screen = Screen::new(Size { rows: 2, columns: 20 });
        screen.push(b"\x1b[31m<b>&\x1b[0m\x1b[7m x\x1b[38;5;255m\x1b[48;5;16m.");
        let svg = svg(&screen);
        assert!(svg.contains(">&lt;b&gt;&amp;</text>") && svg.contains("#e06c75"), "{svg}");
        assert_eq!(svg.matches("<svg").count(), 1);
        for index in 0..=255 {
            let _ = of(Colour::Palette(index), TEXT);
        }
    }
}
