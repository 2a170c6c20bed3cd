//! Unpacks an archive into a new folder and prints a summary: `cargo run --example unpack -- ARCHIVE FOLDER`

use std::fs::File;

use hotcell_images::{Limits, unpack};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args_os().skip(1);
    let (Some(archive), Some(folder)) = (words.next(), words.next()) else {
        return Err("usage: unpack ARCHIVE FOLDER".into());
    };
    std::fs::create_dir(&folder)?;
    let found = unpack(File::open(archive)?, File::open(folder)?.into(), &Limits::default())?;
    println!("{} entries, {} bytes, {}", found.entries, found.bytes, found.diff_id);
    found.recorded.iter().for_each(|row| println!("{row}"));
    Ok(())
}
