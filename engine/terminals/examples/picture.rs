//! Writes a picture of the screen that a terminal's output paints: `cargo run -p hotcell-terminals --example picture -- ROWS COLUMNS <OUTPUT >PICTURE.svg`

use std::io::{Read, Write};

use hotcell_terminals::{Screen, Size, picture};

fn main() -> std::io::Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let (rows, columns) = (numbers.next().unwrap_or(24), numbers.next().unwrap_or(80));
    let mut output = Vec::new();
    std::io::stdin().read_to_end(&mut output)?;
    let mut screen = Screen::new(Size { rows, columns });
    screen.push(&output);
    std::io::stdout().write_all(picture::svg(&screen).as_bytes())
}
