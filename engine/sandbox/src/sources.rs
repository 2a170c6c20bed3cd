//! Resolves the host paths that a job mounts, and refuses those that must never be mounted.

use std::path::{Path, PathBuf};

use hotcell_launcher::wire::MAX_LAYERS;

use crate::plan::{Source, SourceKind};
use crate::policy::{Confinement, FileId, HOME, Job, MountPlace, PROJECT, Policy, Shape};
use crate::refusal::Refusal;
use crate::{alias, plan};

/// Checks that the host paths which a job mounts can be resolved.
///
/// # Errors
/// [`Refusal`] that names the first path which cannot be mounted.
pub fn check(job: &Job) -> Result<(), Refusal> {
    find(job).map(drop)
}

/// Resolves the host paths that a job mounts to canonical paths, so that no link is followed later.
pub fn find(job: &Job) -> Result<Vec<Source>, Refusal> {
    if job.layers.len() > MAX_LAYERS || (job.workspace.is_none() && !job.layers.is_empty()) {
        return Err(Refusal::new(format!(
            "{} layers over {}: at most {MAX_LAYERS} are possible, over a workspace",
            job.layers.len(),
            if job.workspace.is_some() { "a workspace" } else { "no workspace" },
        )));
    }
    let mut sources = Vec::new();
    let workspace = job.workspace.iter().map(|w| (w.clone(), PathBuf::from(PROJECT), SourceKind::Workspace));
    let toolchains = job
        .toolchains
        .iter()
        .map(|t| (t.clone(), t.clone(), SourceKind::Toolchain, job.toolchain_ids.get(t).copied()));
    let binds = job.binds.iter().map(|b| {
        let kind = match (b.writable, b.copy_on_write) {
            (true, _) => SourceKind::ReadWrite,
            (false, true) => SourceKind::CopyOnWrite,
            (false, false) => SourceKind::ReadOnly,
        };
        (b.host.clone(), b.inside.clone(), kind, b.identity)
    });
    let layers = job.layers.iter().map(|l| (l.clone(), PathBuf::from(PROJECT), SourceKind::Layer));
    let any = |(host, inside, kind)| (host, inside, kind, None);
    for (host, inside, kind, identity) in layers.chain(workspace).map(any).chain(toolchains).chain(binds) {
        let found = host.canonicalize().map_err(|e| no_such_folder(&host, &e))?;
        let folder = found.is_dir();
        if matches!(kind, SourceKind::Workspace | SourceKind::Layer) && !folder {
            return Err(Refusal::new(format!(
                "{} is not a folder, so it cannot be a workspace",
                host.display()
            )));
        }
        if kind == SourceKind::CopyOnWrite && !folder {
            return Err(Refusal::new(format!(
                "{} is not a folder, and only folders are shown copy-on-write",
                host.display()
            )));
        }
        if !folder && !found.is_file() {
            return Err(Refusal::new(format!(
                "{} is neither a file nor a folder; sockets, pipes and devices are never mounted",
                host.display()
            )));
        }
        if found == Path::new("/") {
            return Err(Refusal::new("the host's whole file system is never mounted; name a folder"));
        }
        let inside = plan::inside_path(&inside)?;
        if RESERVED.iter().any(|top| inside.starts_with(top)) || inside == Path::new("/") {
            return Err(Refusal::new(format!(
                "nothing can be mounted at {} inside: it belongs to the sandbox itself",
                inside.display()
            )));
        }
        sources.push(Source { host: found, inside, kind, folder, identity });
    }
    refuse_new_places(&sources)?;
    Ok(sources)
}

/// Refuses mounts below a folder of the host that the job mounts writable: their mountpoints would have to be
/// made on the host.
fn refuse_new_places(sources: &[Source]) -> Result<(), Refusal> {
    for outer in sources.iter().filter(|s| s.kind == SourceKind::ReadWrite && s.folder) {
        for inner in sources {
            let Ok(below) = inner.inside.strip_prefix(&outer.inside) else { continue };
            let place = outer.host.join(below);
            if !below.as_os_str().is_empty() && place.symlink_metadata().is_err() {
                return Err(Refusal::new(format!(
                    "{} would have to be made on the host to show {} there; make it first, or name another place",
                    place.display(),
                    inner.host.display()
                )));
            }
        }
    }
    Ok(())
}

/// Puts toolchains where the links to them lead, for a sandbox without a root of its own: there the program sees the links of the host, such as
/// `lib64` of a virtual environment.
pub fn follow_links(sources: &mut [Source]) {
    for source in sources.iter_mut().filter(|source| source.kind == SourceKind::Toolchain) {
        source.inside.clone_from(&source.host);
    }
}

/// Paths inside that a job cannot cover.
const RESERVED: [&str; 3] = ["/proc", "/dev", "/sys"];

/// Mountpoints that the root must have for these sources. Without a root of its own, a sandbox has only
/// copies in scratch.
pub fn places_for(sources: &[Source], confinement: Confinement) -> impl Iterator<Item = MountPlace> {
    let in_scratch = move |s: &&Source| match confinement {
        Confinement::Namespaces => plan::in_scratch(&s.inside),
        Confinement::LandlockOnly => s.copied_to().is_some(),
    };
    sources
        .iter()
        .filter(move |s| !in_scratch(s) && s.inside != Path::new(HOME))
        .map(|s| MountPlace { inside: s.inside.clone(), folder: s.folder })
}

/// The shape of a sandbox for exactly this policy: with its mountpoints, and limits no higher than its own.
pub fn shape_for(policy: &Policy, sources: &[Source]) -> Shape {
    let Policy { shape, job } = policy;
    let mut links = shape.links.clone();
    if shape.confinement == Confinement::Namespaces {
        links.append(&mut alias::links(job, shape.image.as_ref(), sources).root);
    }
    Shape {
        links,
        places: shape.places.iter().cloned().chain(places_for(sources, shape.confinement)).collect(),
        ceilings: job.limits.clone(),
        host_writes: shape.host_writes || job.binds.iter().any(|b| b.writable),
        ..shape.clone()
    }
}

/// Checks that a source has the identity that it must have.
pub fn is_meant(source: &Source, now: &std::fs::Metadata) -> Result<(), Refusal> {
    match source.identity {
        Some(identity) if identity != FileId::from(now) => Err(Refusal::new(format!(
            "{} is another now than the one that was granted or found",
            source.host.display()
        ))),
        _ => Ok(()),
    }
}

/// The refusal for a host path that does not exist.
pub fn no_such_folder(path: &Path, e: &std::io::Error) -> Refusal {
    Refusal::new(format!("{} cannot be mounted: {e}", path.display()))
}
