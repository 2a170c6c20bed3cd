//! Layers, indexes and archives of images: the first byte chooses. Whatever they say, nothing lands outside of the folder.
#![no_main]

use hotcell_images::{Limits, Source, Store, import, unpack};

const LIMITS: Limits = Limits {
    bytes: 1 << 22,
    entries: 200,
    name: 300,
    depth: 20,
    headers: 1 << 16,
    ratio: 100,
    whiteouts: true,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [kind, rest @ ..] = bytes else { return };
    let Ok(place) = tempfile::tempdir() else { return };
    let at = |name: &str| place.path().join(name);
    if std::fs::create_dir(at("in")).is_err() {
        return;
    }
    match kind % 4 {
        0 => {
            if let Ok(folder) = std::fs::File::open(at("in")) {
                let _ = unpack(rest, folder.into(), &LIMITS);
            }
        }
        kind => {
            let Ok(store) = Store::open(&at("in")) else { return };
            let name = ["", "in/index.json", "in/manifest.json", "in/image.tar"][usize::from(kind)];
            if std::fs::write(at(name), rest).is_err() {
                return;
            }
            let source = if kind == 3 { at(name) } else { at("in") };
            let _ = import(&store, "x", &Source::Images(source, None), &LIMITS);
        }
    }
    assert_eq!(std::fs::read_dir(place.path()).map_or(0, Iterator::count), 1, "something landed outside");
});
