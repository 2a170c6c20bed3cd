//! Resolves paths.

/// The absolute path for `given` when these folders are granted.
pub(crate) fn absolute(given: &str, granted: &[String]) -> Result<String, String> {
    if given.contains('\0') {
        return Err("a path cannot hold a zero byte".into());
    }
    if given.starts_with('/') {
        return Ok(given.to_owned());
    }
    let folder = only(granted)?;
    let rest = given.trim_start_matches("./").trim_end_matches('/');
    Ok(match rest {
        "" | "." => folder.to_owned(),
        rest => format!("{}/{rest}", folder.trim_end_matches('/')),
    })
}

/// The granted folder, if there is exactly one.
pub(crate) fn only(granted: &[String]) -> Result<&str, String> {
    match granted {
        [folder] => Ok(folder),
        [] => Err("no folder is granted to this plugin: hotcell tool grant PLUGIN read=FOLDER".into()),
        several => Err(format!("say which folder, by an absolute path; granted are {}", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_for_one_granted_folder() {
        let one = ["/data".to_owned()];
        let two = ["/data".to_owned(), "/more".to_owned()];
        assert_eq!(absolute("a/b", &one).unwrap(), "/data/a/b");
        assert_eq!(absolute(".", &one).unwrap(), "/data");
        assert_eq!(absolute("", &one).unwrap(), "/data");
        assert_eq!(absolute("./a", &one).unwrap(), "/data/a");
        assert_eq!(absolute("/etc", &one).unwrap(), "/etc");
        assert!(absolute("a", &two).unwrap_err().contains("/data, /more"));
        assert!(absolute("a", &[]).unwrap_err().contains("no folder is granted"));
        assert!(absolute("a\0b", &one).is_err());
    }
}
