//! Lines of cells. Every operation is held to the size: a count beyond it does as much as there is.

use std::collections::VecDeque;

use unicode_width::UnicodeWidthChar;

use crate::style::Style;

/// Number of cells of a character: 0 for combining ones.
pub fn width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Combining characters that are kept with a character; further ones are dropped.
const MAX_MARKS: usize = 2;

/// One place of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The character; a space if nothing was written. `None` in the second half of a wide one.
    pub character: Option<char>,
    marks: [Option<char>; MAX_MARKS],
    /// Colours and attributes.
    pub style: Style,
}

impl Cell {
    const fn blank(style: Style) -> Self {
        Self { character: Some(' '), marks: [None; MAX_MARKS], style }
    }

    /// The character with its combining characters.
    pub fn characters(&self) -> impl Iterator<Item = char> {
        self.character.into_iter().chain(self.marks.into_iter().flatten())
    }

    fn is_blank(&self) -> bool {
        self.character == Some(' ') && self.marks[0].is_none()
    }
}

type Line = Vec<Cell>;

/// A rectangle of cells.
#[derive(Clone, Debug)]
pub struct Grid {
    lines: VecDeque<Line>,
    columns: usize,
}

impl Grid {
    /// Blank cells.
    pub fn new(rows: usize, columns: usize) -> Self {
        let columns = columns.max(1);
        let line = || vec![Cell::blank(Style::default()); columns];
        Self { lines: std::iter::repeat_with(line).take(rows.max(1)).collect(), columns }
    }

    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// The lines.
    pub fn lines(&self) -> impl Iterator<Item = &[Cell]> {
        self.lines.iter().map(Vec::as_slice)
    }

    /// A line without the blanks at its end.
    pub fn text(line: &[Cell]) -> String {
        let end = line.iter().rposition(|cell| !cell.is_blank()).map_or(0, |last| last + 1);
        line[..end].iter().flat_map(Cell::characters).collect()
    }

    /// Writes a character of one or two cells, which fits in its line.
    pub fn write(&mut self, row: usize, column: usize, c: char, width: usize, style: Style) {
        for place in 0..width {
            self.clear_half(row, column + place);
        }
        let Some(line) = self.lines.get_mut(row) else { return };
        let Some(cells) = line.get_mut(column..column + width) else { return };
        for (place, cell) in cells.iter_mut().enumerate() {
            *cell = Cell { character: (place == 0).then_some(c), ..Cell::blank(style) };
        }
    }

    /// Adds a combining character to the character before a place.
    pub fn mark(&mut self, row: usize, column: usize, c: char) {
        let Some(line) = self.lines.get_mut(row) else { return };
        let end = column.min(line.len());
        if let Some(cell) = line[..end].iter_mut().rev().take(2).find(|cell| cell.character.is_some())
            && let Some(free) = cell.marks.iter_mut().find(|mark| mark.is_none())
        {
            *free = Some(c);
        }
    }

    /// Makes the other half of a wide character blank, when one half is about to change.
    fn clear_half(&mut self, row: usize, column: usize) {
        let Some(line) = self.lines.get_mut(row) else { return };
        let Some(cell) = line.get(column) else { return };
        let first = if cell.character.is_none() { column.saturating_sub(1) } else { column };
        let is_wide = line.get(first + 1).is_some_and(|next| next.character.is_none());
        if is_wide {
            for half in [first, first + 1] {
                if let Some(cell) = line.get_mut(half) {
                    *cell = Cell::blank(cell.style);
                }
            }
        }
    }

    /// Erases cells of a line, from one column to before another.
    pub fn erase(&mut self, row: usize, from: usize, to: usize, style: Style) {
        let to = to.min(self.columns);
        if from >= to {
            return;
        }
        self.clear_half(row, from);
        self.clear_half(row, to - 1);
        if let Some(cells) = self.lines.get_mut(row).and_then(|line| line.get_mut(from..to)) {
            cells.fill(Cell::blank(style));
        }
    }

    /// Moves the cells from a column on to the right, and out of the line.
    pub fn insert_cells(&mut self, row: usize, column: usize, count: usize, style: Style) {
        let count = count.min(self.columns.saturating_sub(column));
        self.clear_half(row, column);
        self.clear_half(row, self.columns - count.clamp(1, self.columns));
        if let Some(cells) = self.lines.get_mut(row).and_then(|line| line.get_mut(column..)) {
            cells.rotate_right(count);
            cells[..count].fill(Cell::blank(style));
            mend(cells);
        }
    }

    /// Removes cells from a column on; those behind move to the left.
    pub fn delete_cells(&mut self, row: usize, column: usize, count: usize, style: Style) {
        let count = count.min(self.columns.saturating_sub(column));
        self.clear_half(row, column);
        if let Some(cells) = self.lines.get_mut(row).and_then(|line| line.get_mut(column..)) {
            cells.rotate_left(count);
            let kept = cells.len() - count;
            cells[kept..].fill(Cell::blank(style));
            mend(cells);
        }
    }

    /// Moves the lines from `top` to `bottom` (both included) up; blank ones come in below.
    pub fn scroll_up(&mut self, top: usize, bottom: usize, count: usize, style: Style) {
        if top > bottom || bottom >= self.lines.len() {
            return;
        }
        for _ in 0..count.min(bottom - top + 1) {
            if let Some(line) = self.lines.remove(top) {
                self.lines.insert(bottom, blank(line, style));
            }
        }
    }

    /// Moves the lines from `top` to `bottom` (both included) down; blank ones come in above.
    pub fn scroll_down(&mut self, top: usize, bottom: usize, count: usize, style: Style) {
        if top > bottom || bottom >= self.lines.len() {
            return;
        }
        for _ in 0..count.min(bottom - top + 1) {
            if let Some(line) = self.lines.remove(bottom) {
                self.lines.insert(top, blank(line, style));
            }
        }
    }

    /// Changes the size. Lines are cut at their ends; of too many, those above `keep` go first.
    pub fn resize(&mut self, rows: usize, columns: usize, keep: usize) -> usize {
        let (rows, columns) = (rows.max(1), columns.max(1));
        let above = (keep + 1).saturating_sub(rows).min(self.lines.len());
        self.lines.drain(..above);
        self.columns = columns;
        let blank = Cell::blank(Style::default());
        for line in &mut self.lines {
            line.resize(columns, blank);
            mend(line);
        }
        self.lines.resize(rows, vec![blank; columns]);
        above
    }
}

/// Makes halves of wide characters blank that have lost their other halves at an end of the cells.
fn mend(cells: &mut [Cell]) {
    if let Some(first) = cells.first_mut().filter(|cell| cell.character.is_none()) {
        *first = Cell::blank(first.style);
    }
    let is_wide = |cell: &Cell| cell.character.is_some_and(|c| width(c) == 2);
    if let Some(last) = cells.last_mut().filter(|cell| is_wide(cell)) {
        *last = Cell::blank(last.style);
    }
}

fn blank(mut line: Line, style: Style) -> Line {
    line.fill(Cell::blank(style));
    line
}
