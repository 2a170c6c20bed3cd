//! Files of the current folder that a command names, and that a run without a workspace does not see. Pure, but for looking.

use std::ffi::OsString;
use std::path::Path;

/// The first word of a command that names a file or folder by a path relative to `folder`. The program itself counts only
/// with a slash: a name alone is looked up on `PATH`.
pub fn unseen<'a>(command: &'a [OsString], folder: &Path) -> Option<&'a OsString> {
    let names_a_file = |at: usize, word: &OsString| {
        let bytes = word.as_encoded_bytes();
        let is_path = if at == 0 { bytes.contains(&b'/') } else { !bytes.starts_with(b"-") };
        is_path && !bytes.is_empty() && Path::new(word).is_relative() && folder.join(word).exists()
    };
    command.iter().enumerate().find(|(at, word)| names_a_file(*at, word)).map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_files_of_the_folder_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("r.py"), "").expect("a file");
        std::fs::create_dir(folder.path().join("-d")).expect("a folder");
        let absolute = folder.path().join("r.py");
        for (command, want) in [
            (&["python3", "r.py"][..], Some("r.py")),
            (&["python3", "-u", "./r.py", "x"], Some("./r.py")),
            (&["./r.py"], Some("./r.py")),
            // A program's name is looked up on PATH.
            (&["r.py"], None),
            (&["python3", "other.py"], None),
            (&["ls", "-d", ""], None),
            (&["cat", absolute.to_str().expect("UTF-8")], None),
            (&[], None),
        ] {
            let command: Vec<OsString> = command.iter().map(OsString::from).collect();
            let got = unseen(&command, folder.path());
            assert_eq!(got.map(|word| word.to_string_lossy().into_owned()).as_deref(), want, "{command:?}");
        }
    }
}
