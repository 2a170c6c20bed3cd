//! `hotcell image`: the images that sandboxes can have as their root.

use std::io::{self, IsTerminal, Write};

use hotcell_images::Store;
use hotcell_sandbox::Bytes;
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_state::state::{StateError, StateFolder};
use hotcell_verbs::image_build;
use hotcell_verbs::images;
use hotcell_verbs::images::{ImageList, ImageReport, report_in};

use crate::args::{Common, ImageCommand};
use crate::context::{configuration, current_folder, state};
use crate::exit::printed;
use crate::terminal::notes;
use crate::{exit, usage};

/// Runs the command; returns its exit status.
pub fn image(common: &Common, command: &ImageCommand) -> u8 {
    let answered = open(common).and_then(|store| answer(&store, common, command));
    answered.unwrap_or_else(|report| usage::fail(&report, common.json))
}

/// Opens the store of images in the state folder.
fn open(common: &Common) -> Result<Store, ErrorReport> {
    let configuration = configuration(common, None)?;
    let choice = state(common, &configuration);
    let bad = |e: StateError| ErrorReport::new(Code::State, e.to_string());
    images::store(&StateFolder::open(choice.path().map_err(bad)?).map_err(bad)?)
}

fn answer(store: &Store, common: &Common, command: &ImageCommand) -> Result<u8, ErrorReport> {
    let (list, text) = match command {
        ImageCommand::List => {
            let list = ImageList::of(store)?;
            if list.images.is_empty() && !common.json && !common.quiet {
                notes::say("no images yet; try: hotcell image build python");
            }
            let text = table(&list);
            (list, text)
        }
        ImageCommand::Build { definition } => {
            let show = Show(!common.quiet && io::stderr().is_terminal());
            let built = image_build::build(store, definition, &current_folder(), &mut |line| show.line(line));
            show.end();
            let built = built?;
            if built.made == 0 && !common.json && !common.quiet {
                notes::say("nothing to do: it is built from these packages already");
            }
            (ImageList::one(&built.image), format!("{}\n", built.image.name))
        }
        ImageCommand::Import { source, name } => {
            let image = images::import(store, source, name.as_deref(), &current_folder())?;
            if !common.json && !common.quiet {
                image.notes.iter().for_each(notes::say);
            }
            (ImageList::one(&image), format!("{}\n", image.name))
        }
        ImageCommand::Inspect { name } => {
            let list = ImageList::one(&store.get(name).map_err(|e| report_in(store, &e))?);
            let text = list.images.iter().map(told).collect();
            (list, text)
        }
        ImageCommand::Remove { name } => {
            store.remove(name).map_err(|e| report_in(store, &e))?;
            (ImageList::of(store)?, String::new())
        }
    };
    let result = if common.json { exit::print_json(&list) } else { exit::print_text(&text) };
    Ok(printed(result, 0))
}

/// Shows progress on a terminal: one line that is updated.
struct Show(bool);

impl Show {
    fn line(&self, line: &str) {
        if self.0 {
            let line: String = printable(line).chars().take(78).collect();
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
        }
    }

    fn end(&self) {
        if self.0 {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn table(list: &ImageList) -> String {
    if list.images.is_empty() {
        return String::new();
    }
    let mut text = format!("{:<24} {:>10}  {:<24}  FROM\n", "NAME", "HOLDS", "LANGUAGES");
    for row in &list.images {
        let bytes = Bytes(row.bytes).to_string();
        let line = format!("{:<24} {bytes:>10}  {:<24}  {}", row.name, row.languages.join(" "), row.source);
        text.push_str(&printable(&line));
        text.push('\n');
    }
    text
}

/// An image for people, with one line for each fact.
fn told(row: &ImageReport) -> String {
    let mut lines = vec![
        ("name", row.name.clone()),
        ("from", row.source.clone()),
        ("digest", row.digest.clone()),
        ("holds", Bytes(row.bytes).to_string()),
        ("since", row.created.clone()),
        ("languages", row.languages.join(" ")),
    ];
    if let Some(details) = &row.details {
        lines.extend(details.env.iter().map(|(name, value)| ("env", format!("{name}={value}"))));
        lines.extend(details.prime.iter().map(|module| ("prime", module.clone())));
        lines.extend(details.layers.iter().map(|layer| ("layer", layer.clone())));
        lines.extend(details.notes.iter().map(|note| ("note", note.clone())));
    }
    let line = |(name, value): (&str, String)| printable(&format!("{name:<10} {value}")) + "\n";
    lines.into_iter().filter(|(_, value)| !value.is_empty()).map(line).collect()
}
