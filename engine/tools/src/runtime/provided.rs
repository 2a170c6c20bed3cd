//! Interfaces that this host provides, and a check of a component's imports against them: read from the
//! component's outermost layer before compiling, which takes half a minute for a large component.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentOuterAliasKind, ComponentType, ComponentTypeRef,
    InstanceTypeDeclaration, Parser, Payload, TypeBounds,
};

use crate::LoadError;
use crate::asker::line;

/// Maximum number of imports that an error names; it gives the number of the others.
const MAX_NAMES: usize = 20;
/// Maximum length of one of their names, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// Interfaces, and the versions of each: a component may import any version compatible with one of these.
const PROVIDED: &[(&str, &[&str])] = &[
    ("wasi:cli/environment", &["0.2", "0.3"]),
    ("wasi:cli/exit", &["0.2", "0.3"]),
    ("wasi:cli/stderr", &["0.2", "0.3"]),
    ("wasi:cli/stdin", &["0.2", "0.3"]),
    ("wasi:cli/stdout", &["0.2", "0.3"]),
    ("wasi:cli/terminal-input", &["0.2", "0.3"]),
    ("wasi:cli/terminal-output", &["0.2", "0.3"]),
    ("wasi:cli/terminal-stderr", &["0.2", "0.3"]),
    ("wasi:cli/terminal-stdin", &["0.2", "0.3"]),
    ("wasi:cli/terminal-stdout", &["0.2", "0.3"]),
    ("wasi:clocks/monotonic-clock", &["0.2", "0.3"]),
    ("wasi:clocks/system-clock", &["0.3"]),
    ("wasi:clocks/wall-clock", &["0.2"]),
    ("wasi:filesystem/preopens", &["0.2", "0.3"]),
    ("wasi:filesystem/types", &["0.2", "0.3"]),
    ("wasi:http/client", &["0.3"]),
    ("wasi:http/outgoing-handler", &["0.2"]),
    ("wasi:http/types", &["0.2", "0.3"]),
    ("wasi:io/error", &["0.2"]),
    ("wasi:io/poll", &["0.2"]),
    ("wasi:io/streams", &["0.2"]),
    ("wasi:random/insecure", &["0.2", "0.3"]),
    ("wasi:random/insecure-seed", &["0.2", "0.3"]),
    ("wasi:random/random", &["0.2", "0.3"]),
    ("wasi:sockets/instance-network", &["0.2"]),
    ("wasi:sockets/ip-name-lookup", &["0.2", "0.3"]),
    ("wasi:sockets/network", &["0.2"]),
    ("wasi:sockets/tcp", &["0.2"]),
    ("wasi:sockets/tcp-create-socket", &["0.2"]),
    ("wasi:sockets/types", &["0.3"]),
    ("wasi:sockets/udp", &["0.2"]),
    ("wasi:sockets/udp-create-socket", &["0.2"]),
    // Drafts, of which each is compatible with itself only.
    ("wasi:config/runtime", &["0.2.0-draft"]),
    ("wasi:config/store", &["0.2.0-draft", "0.2.0-draft-2024-09-27", "0.2.0-rc.1"]),
    ("wasi:keyvalue/atomics", &["0.2.0-draft", "0.2.0-draft2"]),
    ("wasi:keyvalue/batch", &["0.2.0-draft", "0.2.0-draft2"]),
    ("wasi:keyvalue/store", &["0.2.0-draft", "0.2.0-draft2"]),
    ("hotcell:tool/blob", &["0.1"]),
    ("hotcell:tool/cancelled", &["0.1"]),
    ("hotcell:tool/config", &["0.1"]),
    ("hotcell:tool/kv", &["0.1"]),
    ("hotcell:tool/log", &["0.1"]),
    ("hotcell:tool/progress", &["0.1"]),
    ("hotcell:tool/secret", &["0.1"]),
    ("hotcell:sandbox/run", &["0.1"]),
    ("hotcell:guard/scan", &["0.1"]),
];

/// Checks that all imports of a component are provided.
///
/// # Errors
/// [`LoadError::Imports`] with the names of all missing ones. A component that cannot be read passes, since
/// the compiler reports the reason.
pub(crate) fn check(wasm: &[u8]) -> Result<(), LoadError> {
    let mut missing: Vec<String> = imports(wasm).into_iter().filter_map(|import| import.missing()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if missing.len() > MAX_NAMES {
        let more = missing.len() - MAX_NAMES;
        missing.truncate(MAX_NAMES);
        missing.push(format!("and {more} more"));
    }
    Err(LoadError::Imports { imports: missing })
}

/// One import.
#[derive(Debug, PartialEq)]
struct Import {
    name: String,
    kind: Kind,
}

#[derive(Debug, PartialEq)]
enum Kind {
    /// An interface with functions or resources.
    Interface,
    /// A function of the world itself.
    Function,
    /// A core module, a component or a value.
    Other(&'static str),
    /// Types only: the host need not provide anything.
    Types,
}

impl Import {
    /// Text about this import if it is not provided.
    fn missing(&self) -> Option<String> {
        let name = line(&self.name, MAX_NAME_BYTES);
        match self.kind {
            Kind::Types => None,
            Kind::Function => Some(format!("the function {name} of its world")),
            Kind::Other(what) => Some(format!("the {what} {name}")),
            Kind::Interface => missing_interface(&self.name).map(|why| format!("{name}{why}")),
        }
    }
}

/// Reason there is no interface of this name; `None` if it is provided.
fn missing_interface(name: &str) -> Option<String> {
    let (interface, version) = name.split_once('@').unwrap_or((name, ""));
    let Some((_, versions)) = PROVIDED.iter().find(|(known, _)| *known == interface) else {
        return Some(String::new());
    };
    if version.contains('-') && versions.contains(&version) {
        return None;
    }
    let parsed = semver::Version::parse(version).ok().filter(|v| v.pre.is_empty());
    let track = parsed.map(|v| if v.major > 0 { v.major.to_string() } else { format!("0.{}", v.minor) });
    match track {
        Some(track) if versions.contains(&track.as_str()) => None,
        _ => Some(format!(" (of it there is {})", versions.join(" and "))),
    }
}

/// Imports of a component, as far as it can be read. Nested components and modules are skipped.
fn imports(wasm: &[u8]) -> Vec<Import> {
    let mut found = Vec::new();
    // Per index of the type section: whether an instance of that type has to be provided.
    let mut types: Vec<Option<bool>> = Vec::new();
    let (mut parser, mut rest) = (Parser::new(0), wasm);
    while let Ok(wasmparser::Chunk::Parsed { consumed, payload }) = parser.parse(rest, true) {
        rest = rest.get(consumed..).unwrap_or_default();
        match payload {
            // Skips its contents, whose sections would come next.
            Payload::ModuleSection { unchecked_range, .. }
            | Payload::ComponentSection { unchecked_range, .. } => {
                rest = rest.get(unchecked_range.end - unchecked_range.start..).unwrap_or_default();
            }
            Payload::ComponentTypeSection(section) => {
                for ty in section {
                    types.push(match ty {
                        Ok(ComponentType::Instance(of)) => Some(has_items(&of)),
                        _ => None,
                    });
                }
            }
            Payload::ComponentAliasSection(section) => {
                let is_type = |alias: &ComponentAlias<'_>| {
                    matches!(
                        alias,
                        ComponentAlias::InstanceExport { kind: ComponentExternalKind::Type, .. }
                            | ComponentAlias::Outer { kind: ComponentOuterAliasKind::Type, .. }
                    )
                };
                types.extend(section.into_iter().flatten().filter(is_type).map(|_| None));
            }
            Payload::ComponentImportSection(section) => {
                for import in section.into_iter().flatten() {
                    let kind = match import.ty {
                        ComponentTypeRef::Type(_) => {
                            types.push(None);
                            Kind::Types
                        }
                        ComponentTypeRef::Instance(at) => match types.get(at as usize).copied().flatten() {
                            Some(false) => Kind::Types,
                            _ => Kind::Interface,
                        },
                        ComponentTypeRef::Func(_) => Kind::Function,
                        ComponentTypeRef::Module(_) => Kind::Other("core module"),
                        ComponentTypeRef::Component(_) => Kind::Other("component"),
                        ComponentTypeRef::Value(_) => Kind::Other("value"),
                    };
                    found.push(Import { name: import.name.name.to_owned(), kind });
                }
            }
            Payload::ComponentExportSection(section) => {
                let is_type = |export: &wasmparser::ComponentExport<'_>| {
                    matches!(export.kind, ComponentExternalKind::Type)
                };
                types.extend(section.into_iter().flatten().filter(is_type).map(|_| None));
            }
            Payload::End(_) => break,
            _ => {}
        }
    }
    found
}

/// Whether an instance of this type has an item that a host has to provide.
fn has_items(of: &[InstanceTypeDeclaration<'_>]) -> bool {
    of.iter().any(|declaration| {
        matches!(
            declaration,
            InstanceTypeDeclaration::Export {
                ty: ComponentTypeRef::Func(_)
                    | ComponentTypeRef::Type(TypeBounds::SubResource)
                    | ComponentTypeRef::Instance(_)
                    | ComponentTypeRef::Module(_)
                    | ComponentTypeRef::Component(_),
                ..
            }
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Runtime, RuntimeOptions};

    fn missing(text: &str) -> Result<(), String> {
        let wasm = wat::parse_str(text).expect(text);
        check(&wasm).map_err(|error| error.to_string())
    }

    #[test]
    fn missing_imports_are_all_named() {
        let function = "(instance (export \"get\" (func)))";
        for (imports, words) in [
            (format!("(import \"wasi:cli/stdout@0.2.9\" {function})"), &[][..]),
            (format!("(import \"wasi:clocks/system-clock@0.3.7\" {function})"), &[]),
            // Types only, of an unknown package.
            ("(import \"acme:a/types\" (instance (type (record)) (export \"t\" (type (eq 0)))))".into(), &[]),
            (
                format!(
                    "(import \"acme:a/b\" {function}) (import \"wasi:keyvalue/watcher@0.2.0-draft\" {function})
                     (import \"wasi:nn/graph@0.2.0-rc-2024-10-28\" {function})"
                ),
                &["acme:a/b, wasi:keyvalue/watcher@0.2.0-draft, wasi:nn/graph@0.2.0-rc-2024-10-28, which"],
            ),
            (
                format!("(import \"wasi:cli/stdout@0.4.0\" {function})"),
                &["wasi:cli/stdout@0.4.0 (of it there is 0.2 and 0.3), which"],
            ),
            (format!("(import \"wasi:keyvalue/store@0.2.0-draft2\" {function})"), &[]),
            (
                format!("(import \"wasi:config/store@0.2.0-draft3\" {function})"),
                &["wasi:config/store@0.2.0-draft3 (of it there is 0.2.0-draft and"],
            ),
            (
                format!("(import \"wasi:keyvalue/store@0.2.0\" {function})"),
                &["wasi:keyvalue/store@0.2.0 (of it there is 0.2.0-draft and 0.2.0-draft2)"],
            ),
            (format!("(import \"wasi:cli/stdout\" {function})"), &["(of it there is 0.2 and 0.3)"]),
            (format!("(import \"wasi:cli/stdout@0.3.0-rc-2025-09-16\" {function})"), &["(of it there is"]),
            ("(import \"foo\" (func))".into(), &["the function foo of its world"]),
            ("(import \"m\" (core module))".into(), &["the core module m"]),
            ("(import \"acme:a/r\" (instance (export \"r\" (type (sub resource)))))".into(), &["acme:a/r"]),
            // Beside other imports, nested ones, and after an alias that counts as a type.
            (
                format!(
                    "(component (import \"x\" (func)))
                     (import \"acme:a/types\" (instance $i (type (record)) (export \"t\" (type (eq 0)))))
                     (alias export $i \"t\" (type $t))
                     (import \"acme:a/late\" {function})"
                ),
                &["it imports acme:a/late, which"],
            ),
        ] {
            let told = missing(&format!("(component {imports})"));
            match (told, words) {
                (Ok(()), []) => {}
                (Err(told), words) if !words.is_empty() => {
                    words.iter().for_each(|word| assert!(told.contains(word), "{imports}: {told}"));
                }
                (told, _) => panic!("{imports}: {told:?}"),
            }
        }
        let many: String =
            (0..30).map(|n| format!("(import \"acme:a/b{n}\" {function})")).collect::<Vec<_>>().join(" ");
        let told = missing(&format!("(component {many})")).unwrap_err();
        assert!(told.contains("acme:a/b19, and 10 more, which") && !told.contains("b20"), "{told}");
        assert!(check(b"\0asm\x0d\0\x01\0\x07\xff").is_ok() && check(b"").is_ok());
    }

    #[test]
    fn provided_interfaces_are_linked() {
        let runtime = Runtime::new(&RuntimeOptions { calls: 1, allocation: crate::Allocation::OnDemand });
        let runtime = runtime.expect("an engine");
        for (interface, versions) in PROVIDED {
            for track in *versions {
                let version = if track.contains('-') { (*track).to_owned() } else { format!("{track}.0") };
                let text = format!(
                    "(component (import \"{interface}@{version}\" (instance (export \"f\" (func)))))"
                );
                assert_eq!(check(&wat::parse_str(&text).expect("a component")), Ok(()), "{text}");
            }
        }
        // A function of another type in a known interface has the wrong type, but is not missing.
        for (interface, function) in [
            ("wasi:cli/environment@0.2.0", "get-environment"),
            ("wasi:cli/exit@0.3.0", "exit"),
            ("wasi:clocks/system-clock@0.3.0", "now"),
            ("wasi:clocks/wall-clock@0.2.0", "now"),
            ("wasi:filesystem/preopens@0.2.0", "get-directories"),
            ("wasi:filesystem/preopens@0.3.0", "get-directories"),
            ("wasi:http/client@0.3.0", "send"),
            ("wasi:http/outgoing-handler@0.2.0", "handle"),
            ("wasi:io/poll@0.2.0", "poll"),
            ("wasi:random/insecure-seed@0.2.0", "insecure-seed"),
            ("wasi:random/random@0.3.0", "get-random-u64"),
            ("wasi:sockets/instance-network@0.2.0", "instance-network"),
            ("wasi:sockets/ip-name-lookup@0.3.0", "resolve-addresses"),
            ("wasi:sockets/tcp-create-socket@0.2.0", "create-tcp-socket"),
            ("wasi:config/runtime@0.2.0-draft", "get"),
            ("wasi:config/store@0.2.0-draft", "get-all"),
            ("wasi:config/store@0.2.0-draft-2024-09-27", "get"),
            ("wasi:config/store@0.2.0-rc.1", "get"),
            ("wasi:keyvalue/store@0.2.0-draft", "open"),
            ("wasi:keyvalue/atomics@0.2.0-draft", "increment"),
            ("wasi:keyvalue/batch@0.2.0-draft", "get-many"),
            ("wasi:keyvalue/store@0.2.0-draft2", "open"),
            ("wasi:keyvalue/atomics@0.2.0-draft2", "swap"),
            ("wasi:keyvalue/batch@0.2.0-draft2", "delete-many"),
            ("hotcell:tool/kv@0.1.0", "get"),
            ("hotcell:sandbox/run@0.1.0", "run"),
        ] {
            let text =
                format!("(component (import \"{interface}\" (instance (export \"{function}\" (func)))))");
            let wasm = wat::parse_str(&text).expect("a component");
            let component = wasmtime::component::Component::new(&runtime.engine, wasm).expect(&text);
            let error = runtime.linker.instantiate_pre(&component).map(drop).map_err(|e| format!("{e:#}"));
            assert!(!error.as_ref().is_err_and(|e| e.contains("implementation is missing")), "{error:?}");
        }
    }
}
