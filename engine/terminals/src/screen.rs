//! The screen of a program, as its output paints it. ECMA-48, `ctlseqs(ms)` of xterm

use std::collections::HashMap;

use hotcell_sandbox::text::terminal::Filter;

use crate::grid::{Cell, Grid, width};
use crate::style::Style;

/// Distance of tab stops.
const TAB: usize = 8;
/// Characters of the line-drawing set from 0x60 to 0x7e. VT100 User Guide, table 3-9
const DRAWN: [char; 31] = [
    '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽', '├',
    '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

/// Size of a screen, in characters; both are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// Position of the cursor, and what is saved with it.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    row: usize,
    column: usize,
    style: Style,
    origin: bool,
    /// The last character was written into the last column: the next one begins a line.
    wraps_next: bool,
    drawing: [bool; 2],
    shifted: bool,
}

/// One of the two screens.
#[derive(Clone, Debug)]
struct Page {
    grid: Grid,
    cursor: Cursor,
    saved: Cursor,
    /// First and last line of the part that scrolls.
    margins: (usize, usize),
}

impl Page {
    fn new(size: Size) -> Self {
        let grid = Grid::new(size.rows.into(), size.columns.into());
        let margins = (0, grid.rows() - 1);
        Self { grid, cursor: Cursor::default(), saved: Cursor::default(), margins }
    }
}

/// A screen. Takes a program's output in pieces of any size; answers nothing.
#[derive(Clone, Debug)]
pub struct Screen {
    filter: Filter,
    passed: Vec<u8>,
    main: Page,
    /// While a program has entered the alternate screen.
    other: Option<Page>,
    modes: HashMap<u16, bool>,
    inserts: bool,
    bells: u64,
}

impl Screen {
    /// A blank screen.
    #[must_use]
    pub fn new(size: Size) -> Self {
        Self {
            filter: Filter::of_screen(),
            passed: Vec::new(),
            main: Page::new(size),
            other: None,
            modes: HashMap::new(),
            inserts: false,
            bells: 0,
        }
    }

    /// Size.
    #[must_use]
    pub fn size(&self) -> Size {
        let grid = &self.page().grid;
        let short = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        Size { rows: short(grid.rows()), columns: short(grid.columns()) }
    }

    /// The cursor's row and column, from 0.
    #[must_use]
    pub fn cursor(&self) -> (usize, usize) {
        let page = self.page();
        (page.cursor.row, page.cursor.column.min(page.grid.columns() - 1))
    }

    /// Whether the program shows the cursor.
    #[must_use]
    pub fn has_cursor(&self) -> bool {
        self.mode(25, true)
    }

    /// Whether the program is on the alternate screen, as editors and pagers are.
    #[must_use]
    pub const fn is_alternate(&self) -> bool {
        self.other.is_some()
    }

    /// Whether the program asked for the other bytes of cursor keys.
    #[must_use]
    pub fn has_application_keys(&self) -> bool {
        self.mode(1, false)
    }

    /// Whether the program asked for marks around what is pasted.
    #[must_use]
    pub fn marks_pasted_text(&self) -> bool {
        self.mode(2004, false)
    }

    /// Number of bells so far.
    #[must_use]
    pub const fn bells(&self) -> u64 {
        self.bells
    }

    /// Number of sequences that were dropped: titles, clipboards, queries, unknown ones.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.filter.left_out()
    }

    /// The lines of cells, for a picture.
    pub fn lines(&self) -> impl Iterator<Item = &[Cell]> {
        self.page().grid.lines()
    }

    /// The screen as text: lines without blanks at their ends, up to the last line with text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = self.lines().map(Grid::text).collect();
        let written = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        lines.truncate(written);
        lines.join("\n")
    }

    /// Takes the next bytes of the program's output.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut passed = std::mem::take(&mut self.passed);
        passed.clear();
        self.filter.push(bytes, &mut passed);
        // Whole characters and whole sequences.
        let text = String::from_utf8_lossy(&passed);
        let mut rest: &str = &text;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            if c == '\u{1b}' {
                rest = self.sequence(rest);
            } else {
                self.character(c);
            }
        }
        drop(text);
        self.passed = passed;
    }

    /// Changes the size. What does not fit is lost, at the ends of lines, and above the cursor.
    pub fn resize(&mut self, size: Size) {
        let (rows, columns) = (usize::from(size.rows), usize::from(size.columns));
        for page in std::iter::once(&mut self.main).chain(&mut self.other) {
            let above = page.grid.resize(rows, columns, page.cursor.row);
            page.margins = (0, page.grid.rows() - 1);
            for cursor in [&mut page.cursor, &mut page.saved] {
                cursor.row = cursor.row.saturating_sub(above).min(page.grid.rows() - 1);
                cursor.column = cursor.column.min(page.grid.columns() - 1);
                cursor.wraps_next = false;
            }
        }
    }

    const fn page(&self) -> &Page {
        match &self.other {
            Some(other) => other,
            None => &self.main,
        }
    }

    const fn page_mut(&mut self) -> &mut Page {
        match &mut self.other {
            Some(other) => other,
            None => &mut self.main,
        }
    }

    fn mode(&self, mode: u16, usual: bool) -> bool {
        self.modes.get(&mode).copied().unwrap_or(usual)
    }

    fn character(&mut self, c: char) {
        let page = self.page_mut();
        match c {
            '\n' | '\u{b}' | '\u{c}' => page.line_feed(),
            '\r' => page.set_column(0),
            '\u{8}' => page.set_column(page.cursor.column.saturating_sub(1)),
            '\t' => page.tab(1),
            '\u{e}' => page.cursor.shifted = true,
            '\u{f}' => page.cursor.shifted = false,
            '\u{7}' => self.bells += 1,
            c if c.is_control() => {}
            c => self.write(c),
        }
    }

    fn write(&mut self, c: char) {
        let (wraps, inserts) = (self.mode(7, true), self.inserts);
        let page = self.page_mut();
        let is_drawn = page.cursor.drawing[usize::from(page.cursor.shifted)];
        let c = match u32::from(c) {
            at @ 0x60..=0x7e if is_drawn => DRAWN[(at - 0x60) as usize],
            _ => c,
        };
        let (width, columns) = (width(c), page.grid.columns());
        if width == 0 {
            let column = page.cursor.column + usize::from(page.cursor.wraps_next);
            page.grid.mark(page.cursor.row, column, c);
            return;
        }
        if width > columns {
            return;
        }
        if page.cursor.wraps_next || page.cursor.column + width > columns {
            if wraps {
                page.set_column(0);
                page.line_feed();
            } else {
                page.set_column(columns - width);
            }
        }
        let Cursor { row, column, style, .. } = page.cursor;
        if inserts {
            page.grid.insert_cells(row, column, width, style);
        }
        page.grid.write(row, column, c, width, style);
        page.cursor.wraps_next = column + width >= columns;
        page.cursor.column = (column + width).min(columns - 1);
    }

    /// Obeys the sequence at the beginning of a text, behind its escape; returns the rest.
    fn sequence<'a>(&mut self, text: &'a str) -> &'a str {
        let Some(first) = text.chars().next() else { return text };
        let rest = &text[first.len_utf8()..];
        match first {
            '[' => {
                let end = rest.find(|c: char| ('@'..='~').contains(&c)).unwrap_or(rest.len());
                if let Some(last) = rest[end..].chars().next() {
                    self.control(&rest[..end], last);
                    return &rest[end + last.len_utf8()..];
                }
                ""
            }
            '(' | ')' => {
                let mut set = rest.chars();
                let is_drawing = set.next() == Some('0');
                self.page_mut().cursor.drawing[usize::from(first == ')')] = is_drawing;
                set.as_str()
            }
            _ => {
                let page = self.page_mut();
                match first {
                    '7' => page.saved = page.cursor,
                    '8' => page.cursor = page.saved,
                    'M' => page.reverse_line_feed(),
                    'D' => page.line_feed(),
                    'E' => {
                        page.set_column(0);
                        page.line_feed();
                    }
                    _ => {}
                }
                rest
            }
        }
    }

    fn control(&mut self, parameters: &str, last: char) {
        if let Some(modes) = parameters.strip_prefix('?') {
            for mode in modes.split(';').filter_map(|mode| mode.parse().ok()) {
                self.set_mode(mode, last == 'h');
            }
            return;
        }
        if last == 'm' {
            self.page_mut().cursor.style.apply(parameters);
            return;
        }
        let numbers: Vec<usize> = parameters.split(';').map(|text| text.parse().unwrap_or(0)).collect();
        let first = numbers.first().copied().unwrap_or(0);
        let second = numbers.get(1).copied().unwrap_or(0);
        match last {
            'h' | 'l' => self.inserts = last == 'h',
            'p' => {
                self.inserts = false;
                let page = self.page_mut();
                page.margins = (0, page.grid.rows() - 1);
                page.cursor =
                    Cursor { row: page.cursor.row, column: page.cursor.column, ..Cursor::default() };
            }
            _ => self.page_mut().control(first, second, last),
        }
    }

    fn set_mode(&mut self, mode: u16, on: bool) {
        match mode {
            47 | 1047 | 1049 => {
                if on && self.other.is_none() {
                    let mut page = Page::new(self.size());
                    (page.cursor.row, page.cursor.column) = (self.main.cursor.row, self.main.cursor.column);
                    if mode == 1049 {
                        self.main.saved = self.main.cursor;
                    }
                    self.other = Some(page);
                } else if !on && self.other.take().is_some() && mode == 1049 {
                    self.main.cursor = self.main.saved;
                }
            }
            1048 => {
                let page = self.page_mut();
                if on { page.saved = page.cursor } else { page.cursor = page.saved }
            }
            6 => {
                let page = self.page_mut();
                page.cursor.origin = on;
                page.to(0, 0);
            }
            _ => {
                self.modes.insert(mode, on);
            }
        }
    }
}

impl Page {
    fn set_column(&mut self, column: usize) {
        self.cursor.column = column.min(self.grid.columns() - 1);
        self.cursor.wraps_next = false;
    }

    /// Moves to a line of the screen, or of the part between the margins.
    fn to(&mut self, row: usize, column: usize) {
        let (top, bottom) = if self.cursor.origin { self.margins } else { (0, self.grid.rows() - 1) };
        self.cursor.row = top.saturating_add(row).min(bottom);
        self.set_column(column);
    }

    /// Moves up or down, not beyond the margin in the way.
    fn vertically(&mut self, up: usize, down: usize) {
        let (top, bottom) = self.margins;
        let row = self.cursor.row;
        let least = if row >= top { top } else { 0 };
        let most = if row <= bottom { bottom } else { self.grid.rows() - 1 };
        self.cursor.row = row.saturating_sub(up).max(least).saturating_add(down).min(most);
        self.cursor.wraps_next = false;
    }

    fn line_feed(&mut self) {
        self.cursor.wraps_next = false;
        if self.cursor.row == self.margins.1 {
            self.grid.scroll_up(self.margins.0, self.margins.1, 1, self.erased());
        } else if self.cursor.row + 1 < self.grid.rows() {
            self.cursor.row += 1;
        }
    }

    fn reverse_line_feed(&mut self) {
        self.cursor.wraps_next = false;
        if self.cursor.row == self.margins.0 {
            self.grid.scroll_down(self.margins.0, self.margins.1, 1, self.erased());
        } else {
            self.cursor.row = self.cursor.row.saturating_sub(1);
        }
    }

    fn tab(&mut self, count: usize) {
        let stop = (self.cursor.column / TAB).saturating_add(count).saturating_mul(TAB);
        self.set_column(stop);
    }

    /// Style of cells that are erased: the colour behind.
    fn erased(&self) -> Style {
        Style { behind: self.cursor.style.behind, ..Style::default() }
    }

    fn control(&mut self, first: usize, second: usize, last: char) {
        let count = first.max(1);
        let (row, column, erased) = (self.cursor.row, self.cursor.column, self.erased());
        let (rows, columns) = (self.grid.rows(), self.grid.columns());
        let is_within = (self.margins.0..=self.margins.1).contains(&row);
        match last {
            'A' => self.vertically(count, 0),
            'B' | 'e' => self.vertically(0, count),
            'C' | 'a' => self.set_column(column.saturating_add(count)),
            'D' => self.set_column(column.saturating_sub(count)),
            'E' | 'F' => {
                if last == 'E' {
                    self.vertically(0, count);
                } else {
                    self.vertically(count, 0);
                }
                self.set_column(0);
            }
            'G' | '`' => self.set_column(count - 1),
            'd' => self.to(count - 1, column),
            'H' | 'f' => self.to(count - 1, second.max(1) - 1),
            'I' => self.tab(count),
            'Z' => self.set_column((column.div_ceil(TAB).saturating_sub(count)) * TAB),
            'J' => {
                let (from, to) = match first {
                    0 => {
                        self.grid.erase(row, column, columns, erased);
                        (row + 1, rows)
                    }
                    1 => {
                        self.grid.erase(row, 0, column + 1, erased);
                        (0, row)
                    }
                    _ => (0, rows),
                };
                for line in from..to {
                    self.grid.erase(line, 0, columns, erased);
                }
                self.cursor.wraps_next = false;
            }
            'K' => {
                let (from, to) = match first {
                    0 => (column, columns),
                    1 => (0, column + 1),
                    _ => (0, columns),
                };
                self.grid.erase(row, from, to, erased);
                self.cursor.wraps_next = false;
            }
            'X' => self.grid.erase(row, column, column.saturating_add(count), erased),
            '@' => self.grid.insert_cells(row, column, count, erased),
            'P' => self.grid.delete_cells(row, column, count, erased),
            'L' if is_within => self.grid.scroll_down(row, self.margins.1, count, erased),
            'M' if is_within => self.grid.scroll_up(row, self.margins.1, count, erased),
            'S' => self.grid.scroll_up(self.margins.0, self.margins.1, count, erased),
            'T' => self.grid.scroll_down(self.margins.0, self.margins.1, count, erased),
            'r' => {
                let bottom = if second == 0 { rows } else { second.min(rows) };
                if count < bottom {
                    self.margins = (count - 1, bottom - 1);
                    self.to(0, 0);
                }
            }
            's' => self.saved = self.cursor,
            'u' => self.cursor = self.saved,
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
