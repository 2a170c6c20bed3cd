//! Limits that a plan can hold on this host, or their refusal. Pure.

use super::job;
use crate::Refusal;
use crate::host::Host;
use crate::layer::Layer;
use crate::policy::Limits;
use crate::units::Bytes;

/// Number of hotcell's own folders in scratch, which must not count as the program's.
pub const OWN_SCRATCH_FILES: u64 = 8;

pub(super) fn scratch_files(limits: &Limits) -> u64 {
    limits.files.saturating_add(OWN_SCRATCH_FILES)
}

/// Minimum memory with which a program can start at all.
const MIN_MEMORY: Bytes = Bytes::mib(1);

pub(super) fn check_limits(limits: &Limits, host: &Host) -> Result<(), Refusal> {
    let zero = |name: &str| {
        Refusal::new(format!("the limit {name} is 0, so nothing could run; raise it or leave it out"))
    };
    for (name, value) in [
        ("memory", limits.memory.0),
        ("processes", limits.processes.into()),
        ("disk", limits.disk.0),
        ("files", limits.files),
        ("output", limits.output.0),
    ] {
        if value == 0 {
            return Err(zero(name));
        }
    }
    if limits.wall.is_zero() {
        return Err(zero("timeout"));
    }
    if limits.cpu_time.is_some_and(|t| t.is_zero()) {
        return Err(zero("cpu-time"));
    }
    job::open_files(limits.open_files, host)?;
    if limits.cpus.is_some_and(|n| !n.is_finite() || n < 0.01) {
        return Err(Refusal::new("the limit cpus must be at least 0.01"));
    }
    if limits.cpus.is_some() && !host.cpus {
        return Err(Refusal {
            layer: Some(Layer::Cgroup),
            ..Refusal::new(
                "a share of processors needs a cgroup with the cpu controller; leave ‹cpus› out, or see `hotcell doctor`",
            )
        });
    }
    if limits.memory < MIN_MEMORY {
        return Err(Refusal::new(format!(
            "the memory limit {} is below {MIN_MEMORY}, in which no program starts",
            limits.memory
        )));
    }
    if limits.memory > host.memory {
        return Err(Refusal::new(format!(
            "the memory limit {} is more than this host's {}; lower ‹memory›",
            limits.memory, host.memory
        )));
    }
    if limits.disk > host.memory {
        return Err(Refusal::new(format!(
            "the disk limit {} is more than this host's memory of {}, in which scratch lives; lower ‹max_disk›",
            limits.disk, host.memory
        )));
    }
    if limits.processes > 1 << 22 {
        return Err(Refusal::new("the limit processes is more than the kernel's 4,194,304"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::full_host;

    #[test]
    fn senseless_limits_are_refused() {
        type Spoil = fn(&mut Limits);
        let cases: [(&str, Spoil); 9] = [
            ("memory", |l| l.memory = Bytes(0)),
            ("memory", |l| l.memory = Bytes::gib(64)),
            ("memory", |l| l.memory = Bytes::kib(4)),
            ("timeout", |l| l.wall = std::time::Duration::ZERO),
            ("processes", |l| l.processes = 0),
            ("disk", |l| l.disk = Bytes::gib(100)),
            ("cpus", |l| l.cpus = Some(0.0)),
            ("open_files", |l| l.open_files = Some(0)),
            ("open_files", |l| l.open_files = Some(100_000)),
        ];
        for (name, spoil) in cases {
            let mut limits = Limits::default();
            spoil(&mut limits);
            let refusal = check_limits(&limits, &full_host()).unwrap_err();
            assert!(refusal.message.contains(name), "{name}: {refusal}");
        }
    }

    #[test]
    fn default_limits_fit_every_machine() {
        for (memory, fits) in [(Bytes::mib(900), false), (Bytes::mib(3800), false), (Bytes::gib(8), true)] {
            let host = Host { memory, ..full_host() };
            assert_eq!(check_limits(&Limits::for_tests(), &host).is_ok(), fits, "{memory}");
            let lowered = Limits::for_tests().at_most(memory);
            assert!(check_limits(&lowered, &host).is_ok(), "{memory}");
            assert!(lowered.memory <= Limits::for_tests().memory && lowered.disk <= Limits::for_tests().disk);
        }
    }
}
