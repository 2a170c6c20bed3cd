//! `hotcell approvals allow-binary`, `binaries` and `forget-binary`: machine code that may run unread, by its bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hotcell_review::binaries;
use hotcell_review::binaries::{Binary, BinaryList, found};
use hotcell_review::quarantine::QuarantineConfig;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::time::rfc3339;

use crate::args::{ApprovalsCommand, Common};
use crate::context::configuration;
use crate::exit;
use crate::exit::printed;
use crate::terminal::notes;

/// Minimum number of digits of a digest that name a binary.
const MIN_DIGEST_DIGITS: usize = 8;

/// Runs the command, where it is one of these.
pub fn answer(common: &Common, command: &ApprovalsCommand) -> Option<Result<u8, ErrorReport>> {
    match command {
        ApprovalsCommand::AllowBinary { paths, reason } => Some(allow(common, paths, reason.as_deref())),
        ApprovalsCommand::Binaries => Some(list(common)),
        ApprovalsCommand::ForgetBinary { which } => Some(forget(common, which)),
        _ => None,
    }
}

fn keep(common: &Common) -> Result<QuarantineConfig, ErrorReport> {
    let keep = QuarantineConfig::of(&configuration(common, None)?);
    keep.ok_or_else(|| ErrorReport::new(Code::Internal, "nobody asks for the binaries"))
}

fn failed(error: &dyn ToString) -> ErrorReport {
    ErrorReport::new(Code::Refused, error.to_string())
}

fn found_in(path: &Path) -> Result<BTreeMap<String, String>, ErrorReport> {
    let all = found(path).map_err(|e| {
        ErrorReport::new(Code::InvalidValue, format!("{} cannot be read: {e}", path.display()))
            .field("PATH")
            .hint("name a file, or a folder with files, that you may read")
    })?;
    if all.is_empty() {
        let why = format!("there is no machine code (ELF, WebAssembly, PE, Mach-O) in {}", path.display());
        return Err(ErrorReport::new(Code::InvalidValue, why));
    }
    Ok(all)
}

fn allow(common: &Common, paths: &[PathBuf], reason: Option<&str>) -> Result<u8, ErrorReport> {
    let keep = keep(common)?;
    if keep.two_persons {
        let why = "two persons decide here (two_persons), and this would be the word of one; hotcell quarantine request \
                   and release take two";
        return Err(failed(&why));
    }
    let mut all = BTreeMap::new();
    for path in paths {
        all.extend(found_in(path)?);
    }
    binaries::allow(&keep, all.clone(), reason.map(str::to_owned)).map_err(|e| failed(&e))?;
    let now = binaries::allowed(&keep).map_err(|e| failed(&e))?;
    told(common, now.into_values().filter(|binary| all.contains_key(&binary.sha256)).collect())
}

fn list(common: &Common) -> Result<u8, ErrorReport> {
    let all: Vec<Binary> = binaries::allowed(&keep(common)?).map_err(|e| failed(&e))?.into_values().collect();
    if all.is_empty() && !common.json && !common.quiet {
        notes::say("nothing runs unread by its digest");
    }
    told(common, all)
}

fn forget(common: &Common, which: &[PathBuf]) -> Result<u8, ErrorReport> {
    let keep = keep(common)?;
    let known = binaries::allowed(&keep).map_err(|e| failed(&e))?;
    let mut all = BTreeMap::new();
    for one in which {
        let text = one.to_string_lossy().to_ascii_lowercase();
        let is_digest = text.len() >= MIN_DIGEST_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
        let before = all.len();
        if is_digest && !one.exists() {
            all.extend(
                known
                    .values()
                    .filter(|b| b.sha256.starts_with(&text))
                    .cloned()
                    .map(|b| (b.sha256.clone(), b)),
            );
        } else {
            let there = found_in(one).map_err(|report| {
                report.hint("name it, or the beginning of its digest; hotcell approvals binaries lists them")
            })?;
            all.extend(
                there.keys().filter_map(|digest| known.get(digest).cloned()).map(|b| (b.sha256.clone(), b)),
            );
        }
        if all.len() == before {
            let why = format!(
                "{}: none of the binaries that may run is this; hotcell approvals binaries lists them",
                one.display()
            );
            return Err(ErrorReport::new(Code::InvalidValue, why));
        }
    }
    binaries::forget(&keep, all.values().map(|b| (b.sha256.clone(), b.name.clone())).collect())
        .map_err(|e| failed(&e))?;
    told(common, all.into_values().collect())
}

fn told(common: &Common, binaries: Vec<Binary>) -> Result<u8, ErrorReport> {
    let result = if common.json {
        exit::print_json(&BinaryList::new(binaries))
    } else {
        let line = |b: &Binary| {
            let name = hotcell_sandbox::text::printable(&b.name);
            format!("{}  {}  {} {}  {name}\n", &b.sha256[..16], rfc3339(b.time_us), b.because, b.by)
        };
        exit::print_text(&binaries.iter().map(line).collect::<String>())
    };
    Ok(printed(result, 0))
}
