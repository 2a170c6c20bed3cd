//! Words for a path with `..`, which is refused: links may make it lead elsewhere than its names say.

/// The problem of a path with `..`: it leads out of its folder, or it could be written without. Slashes separate its parts.
#[must_use]
pub fn problem(path: &str) -> String {
    let mut names = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part != ".." {
            names.push(part);
        } else if names.pop().is_none() {
            return "leads out of the folder with ..".to_owned();
        }
    }
    match names.is_empty() {
        true => "is the folder itself by its ..".to_owned(),
        false => {
            // `./run.sh` is a file, and `run.sh` may be a program of `PATH`.
            let root = ["/", "./"].into_iter().find(|root| path.starts_with(root)).unwrap_or_default();
            format!("has a part .., which is not followed; write {:?}", format!("{root}{}", names.join("/")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_lead_out_are_said_to() {
        for (path, want) in [
            ("../x", "leads out of the folder with .."),
            ("a/../../x", "leads out of the folder with .."),
            ("..", "leads out of the folder with .."),
            ("./../x", "leads out of the folder with .."),
            ("a/b/../c", "has a part .., which is not followed; write \"a/c\""),
            ("./a/../run.sh", "has a part .., which is not followed; write \"./run.sh\""),
            ("a//./b/../../c/..d", "has a part .., which is not followed; write \"c/..d\""),
            ("/usr/lib/../bin/x", "has a part .., which is not followed; write \"/usr/bin/x\""),
            ("a/..", "is the folder itself by its .."),
        ] {
            assert_eq!(problem(path), want, "{path}");
        }
    }

    proptest::proptest! {
        /// The path that is suggested has no `..`, and is the one that the kernel finds where there are no links.
        #[test]
        fn suggested_path_leads_to_the_same_place(path in "([ab]|\\.\\.|\\.)(/([ab]|\\.\\.|\\.)){0,8}") {
            let said = problem(&path);
            let mut depth = 0i32;
            let mut leaves = false;
            for part in path.split('/') {
                depth += match part { ".." => -1, "." => 0, _ => 1 };
                leaves |= depth < 0;
            }
            proptest::prop_assert_eq!(said.starts_with("leads out"), leaves);
            if let Some((_, plain)) = said.split_once("write ") {
                proptest::prop_assert!(!plain.contains(".."));
                let parts = plain.trim_matches('"').split('/').filter(|part| *part != ".").count();
                proptest::prop_assert_eq!(parts, usize::try_from(depth).unwrap());
            }
        }
    }
}
