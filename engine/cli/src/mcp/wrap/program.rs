//! The files of a plain command: that of its interpreter, and those that hold its code.

use std::path::{Path, PathBuf};

use hotcell_sandbox::policy::Bind;

/// The command, whose program's file is shown in place where an interpreter runs it: `python3 FILE`, `node FILE`. A file in a folder that is shown
/// already is left as it is, and so are modules and code among the arguments.
pub(super) fn shown_program(server: &[String], binds: &mut Vec<Bind>, cwd: &Path) -> Vec<String> {
    let mut words = server.to_vec();
    let name =
        server.first().and_then(|program| Path::new(program).file_name()?.to_str()).unwrap_or_default();
    let version = name.strip_prefix("python").unwrap_or("-");
    if !matches!(name, "node" | "nodejs") && !version.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return words;
    }
    let is_code =
        |word: &String| matches!(word.as_str(), "-c" | "-m" | "-e" | "-p" | "--eval" | "--print" | "-");
    let arguments = words.iter_mut().skip(1).take_while(|word| !is_code(word));
    for word in arguments.filter(|word| !word.starts_with('-')) {
        let path = cwd.join(&*word);
        let Some(host) = path.canonicalize().ok().filter(|host| host.is_file()) else { continue };
        let Some(inside) = host.to_str().map(str::to_owned) else { break };
        if !binds.iter().any(|bind| path.starts_with(&bind.inside)) {
            let bind =
                Bind { inside: host.clone(), host, writable: false, copy_on_write: false, identity: None };
            binds.push(bind);
            *word = inside;
        }
        break;
    }
    words
}

/// Paths of the host that hold the code of a command: for each word that names a shown file, its folder where that is shown, else the file.
pub(super) fn executed(words: &[String], binds: &[Bind]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for word in words {
        let inside = Path::new(word);
        let host = binds.iter().find_map(|bind| {
            let below = inside.strip_prefix(&bind.inside).ok()?;
            Some(if below.as_os_str().is_empty() { bind.host.clone() } else { bind.host.join(below) })
        });
        let Some(host) = host.filter(|host| host.is_file()) else { continue };
        let folder = host.parent().filter(|folder| binds.iter().any(|bind| folder.starts_with(&bind.host)));
        let path = folder.map_or(host.clone(), Path::to_owned);
        if !all.contains(&path) {
            all.push(path);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_an_interpreter_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        std::fs::write(cwd.join("srv.py"), "").unwrap();
        let at = cwd.join("srv.py").to_string_lossy().into_owned();
        for (words, want) in [
            (&["python3", "srv.py", "srv.py"][..], Some(1)),
            (&["python", "-u", "srv.py"], Some(2)),
            (&["/usr/bin/python3.11", &at], Some(1)),
            (&["node", "--no-warnings", "./srv.py"], Some(2)),
            (&["python3", "-m", "srv.py"], None),
            (&["python3", "-c", "1", "srv.py"], None),
            (&["python3", "none.py"], None),
            (&["python3", "."], None),
            (&["pythonx", "srv.py"], None),
            (&["cat", "srv.py"], None),
            (&["python3"], None),
            (&[], None),
        ] {
            let typed: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let mut binds = Vec::new();
            let shown = shown_program(&typed, &mut binds, &cwd);
            let mut expected = typed.clone();
            want.into_iter().for_each(|number: usize| expected[number].clone_from(&at));
            assert_eq!((shown, binds.len()), (expected, usize::from(want.is_some())), "{words:?}");
            assert!(binds.iter().all(|bind| !bind.writable && bind.inside == bind.host));
        }
        let own = Bind {
            host: cwd.clone(),
            inside: cwd.clone(),
            writable: false,
            copy_on_write: false,
            identity: None,
        };
        let mut binds = vec![own];
        let typed = ["python3".to_owned(), at];
        assert_eq!((shown_program(&typed, &mut binds, &cwd), binds.len()), (typed.to_vec(), 1));
    }

    #[test]
    fn code_of_a_plain_command_is_found_in_what_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("app/data")).unwrap();
        std::fs::write(at("app/server.py"), "").unwrap();
        std::fs::write(at("alone.js"), "").unwrap();
        let bind = |host: PathBuf| Bind {
            inside: host.clone(),
            host,
            writable: false,
            copy_on_write: false,
            identity: None,
        };
        let words = |path: PathBuf| vec!["python3".to_owned(), path.to_string_lossy().into_owned()];
        let binds = [bind(at("app")), bind(at("alone.js"))];
        assert_eq!(executed(&words(at("app/server.py")), &binds), [at("app")]);
        assert_eq!(executed(&words(at("alone.js")), &binds), [at("alone.js")]);
        // A folder of data, and a file that is not shown.
        assert!(executed(&words(at("app/data")), &binds).is_empty());
        assert!(executed(&words(at("app/server.py")), &[]).is_empty());
    }
}
