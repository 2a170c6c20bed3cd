//! Program and files of a run.

/// File of the program itself.
pub(crate) const MAIN: &str = "main.py";

/// Program and arguments.
pub(crate) fn argv(arguments: Vec<String>) -> Vec<String> {
    // Without -I, so that modules among the files are found.
    let mut argv = vec!["python3".into(), "-X".into(), "utf8".into(), MAIN.into()];
    argv.extend(arguments);
    argv
}

/// The files of the run, the program first.
pub(crate) fn files(code: String, others: Vec<(String, String)>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut files = vec![(MAIN.to_owned(), code.into_bytes())];
    for (path, content) in others {
        let parts = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !parts || path.contains('\0') {
            return Err(format!("'{path}' is no path below the start folder"));
        }
        if files.iter().any(|(there, _)| *there == path) {
            return Err(format!(
                "two files are called '{path}'{}",
                if path == MAIN { ", which is the program's name" } else { "" }
            ));
        }
        files.push((path, content.into_bytes()));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_below_the_start_folder() {
        let one = |path: &str| files("1".into(), vec![(path.into(), "x".into())]);
        assert_eq!(one("a/b.py").unwrap()[1].0, "a/b.py");
        for bad in ["", "/etc/x", "../x", "a/../b", "a//b", "a/", "./a", "a\0", "main.py"] {
            assert!(one(bad).is_err(), "{bad:?}");
        }
        let two = vec![("a".to_owned(), String::new()), ("a".to_owned(), String::new())];
        assert!(files(String::new(), two).unwrap_err().contains("two files"));
        assert_eq!(argv(vec!["x".into()]), ["python3", "-X", "utf8", "main.py", "x"]);
    }
}
