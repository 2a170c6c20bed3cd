//! Builds an image from its definition: a layer of Debian packages, and one for each registry that it takes
//! packages from. Layers are cached by the digest of their inputs, so rebuilding reuses every layer whose
//! packages have not changed in the archive.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bytecode;
use crate::debian::apt::{Apt, AptError, Chosen};
use crate::debian::layer::{self, DebianError, Merged};
use crate::definition::Definition;
use crate::error::StoreError;
use crate::image::{self, Config, Image, PATH};
use crate::npm::{self, NpmError};
use crate::pipe::{Archive, piped};
use crate::pypi::{self, PypiError, Target};
use crate::store::{Import, Named, Store};
use crate::stream::Digest;
use crate::unpack::Limits;
use crate::view::View;

/// Version of the build, part of every digest of inputs: raised when the same inputs would give different
/// bytes.
const FORM: u32 = 1;

/// Result of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The image, as stored.
    pub image: Image,
    /// Number of layers that were built; the others came from the cache.
    pub made: usize,
}

/// Reason why an image could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Debian packages cannot be resolved or downloaded.
    #[error(transparent)]
    Apt(#[from] AptError),
    /// Debian packages cannot be merged into a layer.
    #[error(transparent)]
    Debian(#[from] DebianError),
    /// PyPI packages cannot be fetched or installed.
    #[error(transparent)]
    Pypi(#[from] PypiError),
    /// npm packages cannot be fetched or installed.
    #[error(transparent)]
    Npm(#[from] NpmError),
    /// The store refused the image.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An interpreter or compiler of a language of the definition is missing.
    #[error("languages: no program for {0} came with the packages; name one that does, or take {0} out")]
    Language(String),
    /// Python's modules cannot be compiled; the image is made without their byte code.
    #[error("compiling Python's modules: {0}")]
    Hindered(String),
    /// The layer cache or a build folder cannot be read or written.
    #[error("building the image: {0}")]
    Io(#[from] io::Error),
}

/// Cache entry of a layer, by the digest of its inputs.
#[derive(Serialize, Deserialize)]
struct Remembered {
    layer: Digest,
    path: Vec<String>,
    scripts: Vec<String>,
    packages: Vec<String>,
}

/// Builds an image and puts it into the store under its name. `source` is the image as the user named it;
/// `progress` receives one line at a time.
///
/// # Errors
/// [`BuildError`]. Finished layers that no image names are removed when the store is opened again.
pub fn build(
    store: &Store,
    definition: &Definition,
    source: &str,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Built, BuildError> {
    progress("reading the lists of the archive");
    let apt = Apt::new(definition.suite.as_deref())?;
    progress("resolving Debian packages");
    let chosen = apt.resolve(&definition.packages)?;
    let (suite, architecture) = (apt.suite.clone(), apt.architecture.clone());
    let mut build = Building { import: store.begin()?, memory: store.built(), layers: Vec::new(), made: 0 };

    let rows: Vec<String> = chosen.iter().map(row).collect();
    let inputs =
        inputs("debian", &[&architecture, &format!("{:?} {:?}", definition.links, definition.path)], &rows);
    let debian = build.layer("debian", &inputs, |out| {
        let Merged { path, scripts } = layer::write(definition, &apt, &chosen, progress, out)?;
        Ok::<_, BuildError>((path, scripts, rows.clone()))
    })?;
    drop(apt);
    if !definition.pypi.is_empty() {
        let target = Target::of(&chosen, &architecture).ok_or(PypiError::NoPython)?;
        let pins: Vec<String> = definition.pypi.iter().map(|wheel| format!("{wheel:?}")).collect();
        let inputs = self::inputs("pypi", &[&format!("{target:?}")], &pins);
        build.layer("pypi", &inputs, |out| {
            progress(&format!("installing {} PyPI packages", definition.pypi.len()));
            let work = hotcell_sandbox::temporary::folder()?;
            let mut out = tar::Builder::new(out);
            let files = pypi::write(&definition.pypi, &target, work.path(), &mut out)?;
            out.into_inner()?.flush()?;
            let rows = files.iter().map(|(file, digest)| format!("{file} {digest}")).collect();
            Ok::<_, BuildError>((Vec::new(), Vec::new(), rows))
        })?;
    }
    let mut notes = Vec::new();
    if let Some(minor) = pypi::python_of(&chosen) {
        // The topmost layer comes first.
        let below: Vec<Digest> = build.layers.iter().rev().copied().collect();
        let folders: Vec<PathBuf> = below.iter().map(|layer| store.layer(layer)).collect();
        let rows: Vec<String> = below.iter().map(Digest::to_string).collect();
        let compiled = build.layer("bytecode", &self::inputs("bytecode", &[], &rows), |out| {
            progress("compiling Python's modules");
            let work = hotcell_sandbox::temporary::folder()?;
            let mut out = tar::Builder::new(out);
            if let Some(why) = bytecode::write(&folders, minor, work.path(), &mut out)? {
                return Err(BuildError::Hindered(why));
            }
            out.into_inner()?.flush()?;
            Ok((Vec::new(), Vec::new(), Vec::new()))
        });
        match compiled {
            Err(BuildError::Hindered(why)) => {
                notes.push(format!(
                    "Python's modules are not compiled ahead of time, so programs start slower: {why}"
                ));
            }
            compiled => drop(compiled?),
        }
    }
    if !definition.npm.is_empty() {
        progress("resolving npm packages");
        let work = hotcell_sandbox::temporary::folder()?;
        let rows = npm::resolve(&definition.npm, work.path())?;
        build.layer("npm", &self::inputs("npm", &[&definition.npm.join(" ")], &rows), |out| {
            progress(&format!("installing {} npm packages", rows.len()));
            let mut out = tar::Builder::new(out);
            npm::write(&definition.npm, work.path(), &mut out)?;
            out.into_inner()?.flush()?;
            Ok::<_, BuildError>((Vec::new(), Vec::new(), rows.clone()))
        })?;
    }
    let Building { import, mut layers, made, .. } = build;
    layers.reverse();

    let mut env = definition.env.clone();
    let path = debian.path.iter().map(String::as_str).chain([PATH]).collect::<Vec<_>>().join(":");
    env.insert("PATH".to_owned(), path.clone());
    let mut whole: Vec<String> = layers.iter().map(Digest::to_string).chain([format!("{env:?}")]).collect();
    if !definition.prime.is_empty() {
        whole.push(format!("prime {:?}", definition.prime));
    }
    let digest = self::inputs("image", &[], &whole);
    if let Ok(image) = store.get(&definition.name)
        && (&image.digest, &image.layers) == (&digest, &layers)
    {
        return Ok(Built { image, made });
    }
    let folders: Vec<PathBuf> = layers.iter().map(|layer| store.layer(layer)).collect();
    let found = image::languages(&View::open(&folders)?, &path)?;
    if let Some(absent) = definition.languages.iter().find(|language| !found.contains(language)) {
        return Err(BuildError::Language(absent.clone()));
    }
    if !debian.scripts.is_empty() {
        notes.push(format!("scripts of packages that were not run: {}", debian.scripts.join("; ")));
    }
    let named = Named {
        name: definition.name.clone(),
        source: format!("{source} ({suite})"),
        digest,
        config: Config { env, prime: definition.prime.clone(), ..Config::default() },
        notes,
    };
    Ok(Built { image: import.finish(named, layers)?, made })
}

struct Building<'a> {
    import: Import<'a>,
    memory: PathBuf,
    layers: Vec<Digest>,
    made: usize,
}

/// Facts about a layer that its writer returns: the path, the scripts, the packages.
type Written = (Vec<String>, Vec<String>, Vec<String>);

impl Building<'_> {
    /// The layer with these inputs: the cached one of an earlier build, or a new one from `write`.
    fn layer(
        &mut self,
        of: &str,
        inputs: &Digest,
        write: impl FnOnce(io::BufWriter<io::PipeWriter>) -> Result<Written, BuildError> + Send,
    ) -> Result<Remembered, BuildError> {
        let file = self.memory.join(inputs.hex());
        if let Some(known) = recall(&file).filter(|known| self.import.has(&known.layer)) {
            self.layers.push(known.layer);
            return Ok(known);
        }
        let limits = Limits { whiteouts: false, ..Limits::default() };
        let add =
            |archive: &mut Archive<'_>| Ok::<_, BuildError>(self.import.layer(of, archive, None, &limits)?);
        let ((path, scripts, packages), layer) = piped(write, add, is_broken_pipe)?;
        let known = Remembered { layer, path, scripts, packages };
        forget(&self.memory, &self.import)?;
        remember(&file, &known)?;
        self.layers.push(layer);
        self.made += 1;
        Ok(known)
    }
}

/// Whether the writer failed only because the reader had stopped.
fn is_broken_pipe(error: &BuildError) -> bool {
    let io = match error {
        BuildError::Io(e)
        | BuildError::Debian(DebianError::Io(e) | DebianError::Package { error: e, .. })
        | BuildError::Pypi(PypiError::Io(e))
        | BuildError::Npm(NpmError::Io(e)) => e,
        _ => return false,
    };
    io.kind() == io::ErrorKind::BrokenPipe
}

fn row(package: &Chosen) -> String {
    format!("{} {} {}", package.name, package.version, package.digest)
}

fn inputs(of: &str, more: &[&str], rows: &[String]) -> Digest {
    let mut text = format!("{FORM} {of}\n");
    for line in more.iter().copied().chain(rows.iter().map(String::as_str)) {
        text.push_str(line);
        text.push('\n');
    }
    Digest::of(text.as_bytes())
}

/// An unreadable cache entry counts as missing, and the layer is built again.
fn recall(file: &Path) -> Option<Remembered> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Writes a temporary file and renames it, so that a reader sees the whole entry or no entry.
fn remember(file: &Path, known: &Remembered) -> io::Result<()> {
    let folder = file.parent().map_or_else(PathBuf::new, Path::to_owned);
    fs::create_dir_all(&folder)?;
    let mut beside = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer(&mut beside, known)?;
    beside.persist(file)?;
    Ok(())
}

/// Removes cache entries of layers that no longer exist.
fn forget(memory: &Path, import: &Import<'_>) -> io::Result<()> {
    for entry in fs::read_dir(memory).into_iter().flatten() {
        let file = entry?.path();
        if recall(&file).is_none_or(|known| !import.has(&known.layer)) {
            fs::remove_file(file)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(store: &Store, inputs: &[u8], text: Result<&str, &str>) -> Result<(Digest, usize), String> {
        let import = store.begin().unwrap();
        let mut build = Building { import, memory: store.built(), layers: Vec::new(), made: 0 };
        let known = build.layer("debian", &Digest::of(inputs), |out| {
            let mut out = tar::Builder::new(out);
            crate::tarball::file(&mut out, Path::new("a"), text.unwrap_or("half").as_bytes(), 0o644)?;
            if text == Ok("refused") {
                crate::tarball::link(&mut out, Path::new("l"), Path::new("a"))?;
                crate::tarball::file(&mut out, Path::new("l/x"), b"", 0o644)?;
            }
            out.into_inner()?.flush()?;
            match text {
                Ok(_) => Ok((vec!["/p".into()], vec!["s".into()], vec!["dash 1".into()])),
                Err(why) => Err(BuildError::Io(io::Error::other(why.to_owned()))),
            }
        });
        let known = known.map_err(|e| e.to_string())?;
        assert_eq!((known.path, known.scripts), (vec!["/p".to_owned()], vec!["s".to_owned()]));
        assert_eq!(build.layers, [known.layer]);
        Ok((known.layer, build.made))
    }

    #[test]
    fn layer_is_built_once_for_same_inputs() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let (first, made) = layer(&store, b"1", Ok("text")).unwrap();
        assert_eq!(made, 1);
        assert_eq!(layer(&store, b"1", Err("must not be asked")).unwrap(), (first, 0));
        assert_eq!(layer(&store, b"2", Ok("text")).unwrap(), (first, 1), "other inputs, the same files");
        // The cache entry is damaged, or was removed meanwhile.
        let row = store.built().join(Digest::of(b"1").hex());
        fs::write(&row, "{").unwrap();
        assert_eq!(layer(&store, b"1", Ok("text")).unwrap(), (first, 1));
        fs::remove_dir_all(store.layer(&first)).unwrap();
        assert_eq!(layer(&store, b"3", Ok("other")).unwrap().1, 1);
        assert!(!row.exists(), "what is remembered of a layer that is gone");
    }

    #[test]
    fn failed_layer_is_not_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(layer(&store, b"1", Err("no room")).unwrap_err(), "building the image: no room");
        let error = layer(&store, b"1", Ok("refused")).unwrap_err();
        assert!(error.starts_with("the layer debian: the archive's entry"), "{error}");
        assert_eq!(layer(&store, b"1", Ok("x")).unwrap().1, 1);
        drop(store);
        Store::open(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("layers")).unwrap().count(), 0, "no row names it");
    }
}
