//! A compact table: all text in one string.

/// Start offset that marks a missing cell.
const MISSING: u32 = u32::MAX;

/// A table. A row may have fewer cells than there are columns: the rest is missing.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    text: String,
    /// Start and end of each cell in the text.
    cells: Vec<(u32, u32)>,
    /// Index of each row's first cell.
    rows: Vec<u32>,
}

impl Table {
    pub(crate) fn new(columns: Vec<String>) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Index of the column with this name.
    pub(crate) fn column(&self, name: &str) -> Result<usize, String> {
        self.columns.iter().position(|column| column == name).ok_or_else(|| {
            let columns: Vec<_> = self.columns.iter().take(50).map(String::as_str).collect();
            format!("there is no column '{name}'; there are: {}", columns.join(", "))
        })
    }

    /// Begins a row, to which cells are added.
    pub(crate) fn row(&mut self) {
        self.rows.push(self.cells.len() as u32);
    }

    /// Adds a cell to the last row; an empty one is missing.
    pub(crate) fn push(&mut self, cell: Option<&str>) {
        let begin = self.text.len() as u32;
        self.cells.push(match cell {
            None | Some("") => (MISSING, MISSING),
            Some(cell) => {
                self.text.push_str(cell);
                (begin, self.text.len() as u32)
            }
        });
    }

    /// A cell, unless it is missing.
    pub(crate) fn cell(&self, row: usize, column: usize) -> Option<&str> {
        let begin = self.rows[row] as usize;
        let end = self.rows.get(row + 1).map_or(self.cells.len(), |end| *end as usize);
        let (from, to) = *self.cells[begin..end].get(column)?;
        (from != MISSING).then(|| &self.text[from as usize..to as usize])
    }

    /// The cells of some columns of a row.
    pub(crate) fn cells<'a>(
        &'a self,
        row: usize,
        columns: &'a [usize],
    ) -> impl Iterator<Item = Option<&'a str>> {
        columns.iter().map(move |column| self.cell(row, *column))
    }
}

#[cfg(test)]
pub(crate) fn table(text: &str) -> Table {
    crate::read::csv(text.as_bytes(), b',', true).unwrap()
}

#[cfg(test)]
pub(crate) fn show(table: &Table) -> Vec<String> {
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    let line = |row| table.cells(row, &columns).map(|c| c.unwrap_or("-")).collect::<Vec<_>>().join(",");
    (0..table.len()).map(line).collect()
}
