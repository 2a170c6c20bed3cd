//! Whole disks of the host in the definitions of containers: compose files and cluster manifests.

use serde_yaml_ng::{Mapping, Value as Yaml};
use std::collections::BTreeMap;

/// Maximum nesting of a document that is searched.
const MAX_DEPTH: usize = 64;

/// Texts of a document, near each place where a container may write to the host's whole disk.
pub(super) fn of_whole_disk(document: &Yaml) -> Vec<&str> {
    let mut read_only = BTreeMap::new();
    mounts(document, &mut read_only, 0);
    let mut out = Vec::new();
    walk(document, &read_only, &mut out, 0);
    out
}

/// Collects the volumes that containers of a cluster mount, and whether all mounts of each are read-only.
fn mounts<'y>(value: &'y Yaml, read_only: &mut BTreeMap<&'y str, bool>, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Yaml::Mapping(map) => {
            for mount in list(map, "volumeMounts").filter_map(Yaml::as_mapping) {
                if let Some(name) = mount.get("name").and_then(Yaml::as_str) {
                    let is = is_true(mount, "readOnly");
                    read_only.entry(name).and_modify(|all| *all &= is).or_insert(is);
                }
            }
            map.values().for_each(|value| mounts(value, read_only, depth + 1));
        }
        Yaml::Sequence(list) => list.iter().for_each(|value| mounts(value, read_only, depth + 1)),
        Yaml::Tagged(tagged) => mounts(&tagged.value, read_only, depth + 1),
        _ => {}
    }
}

fn walk<'y>(value: &'y Yaml, read_only: &BTreeMap<&str, bool>, out: &mut Vec<&'y str>, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Yaml::Mapping(map) => {
            for volume in list(map, "volumes") {
                match volume {
                    Yaml::String(short) if is_writable_short(short) => out.push(short),
                    Yaml::Mapping(long)
                        if text(long, "source").or_else(|| text(long, "src")).is_some_and(is_root)
                            && !is_true(long, "read_only")
                            && !is_true(long, "readonly") =>
                    {
                        out.push("source");
                    }
                    _ => {}
                }
            }
            let folder = map.get("hostPath").and_then(Yaml::as_mapping);
            if folder.and_then(|folder| text(folder, "path")).is_some_and(is_root)
                && !text(map, "name").and_then(|name| read_only.get(name)).is_some_and(|all| *all)
            {
                out.push("hostPath");
            }
            map.values().for_each(|value| walk(value, read_only, out, depth + 1));
        }
        Yaml::Sequence(list) => list.iter().for_each(|value| walk(value, read_only, out, depth + 1)),
        Yaml::Tagged(tagged) => walk(&tagged.value, read_only, out, depth + 1),
        _ => {}
    }
}

/// `SOURCE:TARGET[:OPTIONS]` with the whole disk as its source, that is not read-only.
fn is_writable_short(short: &str) -> bool {
    let mut parts = short.split(':');
    let (source, target) = (parts.next().unwrap_or(""), parts.next());
    let read_only = parts.next().is_some_and(|options| options.split(',').any(|option| option == "ro"));
    target.is_some_and(|target| target.starts_with('/')) && is_root(source) && !read_only
}

/// The root folder, in any spelling.
fn is_root(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| matches!(part, "" | "." | ".."))
}

fn list<'y>(map: &'y Mapping, key: &str) -> impl Iterator<Item = &'y Yaml> {
    map.get(key).and_then(Yaml::as_sequence).into_iter().flatten()
}

fn text<'y>(map: &'y Mapping, key: &str) -> Option<&'y str> {
    map.get(key).and_then(Yaml::as_str)
}

fn is_true(map: &Mapping, key: &str) -> bool {
    map.get(key).and_then(Yaml::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_disks_that_a_container_may_write_to() -> Result<(), serde_yaml_ng::Error> {
        let pod = |mounts: &str| {
            format!(
                "spec:\n  containers:\n  - volumeMounts: [{mounts}]\n  volumes:\n  - name: root\n    hostPath: {{path: /}}\n"
            )
        };
        for (document, is) in [
            ("services: {x: {volumes: ['/:/host']}}".to_owned(), true),
            ("services: {x: {volumes: ['//:/host']}}".to_owned(), true),
            ("services: {x: {volumes: ['/./:/host:rw']}}".to_owned(), true),
            ("services: {x: {volumes: ['/:/rootfs:ro']}}".to_owned(), false),
            ("services: {x: {volumes: ['/:/host:ro,rslave']}}".to_owned(), false),
            ("services: {x: {volumes: ['./:/app', '/var/x:/x', 'data:/']}}".to_owned(), false),
            ("services: {x: {volumes: [{type: bind, source: /, target: /host}]}}".to_owned(), true),
            (
                "services: {x: {volumes: [{type: bind, source: /, target: /host, read_only: true}]}}"
                    .to_owned(),
                false,
            ),
            ("services: {x: {volumes: [{type: bind, source: ./, target: /app}]}}".to_owned(), false),
            (pod("{name: root, mountPath: /host}"), true),
            (pod("{name: root, mountPath: /host, readOnly: true}"), false),
            (pod("{name: root, mountPath: /a, readOnly: true}, {name: root, mountPath: /b}"), true),
            (pod(""), true),
            ("kind: PersistentVolume\nspec: {hostPath: {path: //}}".to_owned(), true),
            ("kind: PersistentVolume\nspec: {hostPath: {path: /data}}".to_owned(), false),
        ] {
            let yaml: Yaml = serde_yaml_ng::from_str(&document)?;
            assert_eq!(!of_whole_disk(&yaml).is_empty(), is, "{document}");
        }
        Ok(())
    }
}
