//! Figures of Python sources: a backend of matplotlib that writes them below the folder of outputs, shown to sources that plot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hotcell_config::{EnvSetting, RunSettings};
use hotcell_sandbox::policy::{Bind, HOME};

/// The backend, and its name as a module.
const BACKEND: &str = include_str!("hotcell_figures.py");
const FILE: &str = "hotcell_figures.py";
const MODULE: &str = "module://hotcell_figures";
/// Folder in the state folder, and the one inside.
const FOLDER: &str = "figures";
const INSIDE: &str = ".hotcell";
/// Words of sources that may plot.
const PLOTS: [&[u8]; 4] = [b"matplotlib", b"pylab", b"seaborn", b".plot"];
/// Variables that a caller may set instead.
const VARIABLES: [&str; 2] = ["MPLBACKEND", "PYTHONPATH"];

/// Whether a source may plot. A wrong guess costs a file that is shown in vain. Pure.
fn plots(source: &[u8]) -> bool {
    PLOTS.iter().any(|word| source.windows(word.len()).any(|piece| piece == *word))
}

/// Shows the backend to a Python source that may plot, unless the caller sets the variables that it needs. Without it, figures are not
/// returned; nothing else changes.
pub fn show(state: &Path, source: &[u8], settings: &mut RunSettings) {
    let is_set = |setting: &EnvSetting| match setting {
        EnvSetting::Set(name, _) | EnvSetting::Pass(name) => VARIABLES.iter().any(|own| name == own),
    };
    if !plots(source) || settings.env.iter().any(is_set) {
        return;
    }
    let host = match placed(state) {
        Ok(host) => host,
        Err(error) => return tracing::info!("figures of matplotlib are not returned: {error}"),
    };
    let folder = Path::new(HOME).join(INSIDE);
    settings.binds.push(Bind {
        host,
        inside: folder.join(FILE),
        writable: false,
        copy_on_write: false,
        identity: None,
    });
    settings.env.push(EnvSetting::Set("MPLBACKEND".into(), MODULE.into()));
    settings.env.push(EnvSetting::Set("PYTHONPATH".into(), folder.into()));
}

/// Path of the backend on the host; written anew where its text is another.
fn placed(state: &Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let folder = state.join(FOLDER);
    let path = folder.join(FILE);
    if fs::read(&path).is_ok_and(|text| text == BACKEND.as_bytes()) {
        return Ok(path);
    }
    fs::create_dir_all(&folder)?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&folder)?;
    io::Write::write_all(&mut file, BACKEND.as_bytes())?;
    // Another user of the host reads it in the sandbox.
    file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_that_plot_get_the_backend_once() {
        let state = tempfile::tempdir().unwrap();
        let shown = |source: &str, env: Vec<EnvSetting>| {
            let mut settings = RunSettings { env, ..RunSettings::default() };
            show(state.path(), source.as_bytes(), &mut settings);
            (settings.binds.len(), settings.env.len())
        };
        let own = || vec![EnvSetting::Set("PYTHONPATH".into(), "/x".into())];
        assert_eq!(shown("import matplotlib.pyplot as plt", Vec::new()), (1, 2));
        assert_eq!(shown("frame.plot()", Vec::new()), (1, 2));
        assert_eq!(shown("print(1)", Vec::new()), (0, 0));
        assert_eq!(shown("import pylab", own()), (0, 1));
        assert_eq!(fs::read_to_string(placed(state.path()).unwrap()).unwrap(), BACKEND);
    }
}
