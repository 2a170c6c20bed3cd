//! Variables and options that tell language runtimes and package managers about their sandbox: how much
//! memory and how many threads it has, and that there is no network. Each is set only if the user did not set
//! it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use hotcell_sandbox::policy::{Job, Limits, Network};

/// Libraries that by default start a thread for each processor of the machine.
const POOLS: [&str; 9] = [
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "GOMAXPROCS",
];
/// Retries of package managers when no server answers; with its default npm takes a minute.
const TRIES: [(&str, &str); 3] =
    [("npm_config_fetch_retries", "0"), ("PIP_RETRIES", "0"), ("CARGO_NET_RETRY", "0")];
/// LeakSanitizer stops the program and inspects it like a debugger. The sandbox forbids that, so each correct
/// program would fail.
const LEAKS: (&str, &str) = ("LSAN_OPTIONS", "detect_leaks=0");
/// A pool gets 1/`POOL_DIVISOR` of the allowed processes and threads, since several libraries of a program have
/// pools.
const POOL_DIVISOR: u32 = 8;
/// Variables and options that set the size of Java's heap.
const JAVA_VARIABLES: [&str; 3] = ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"];
const JAVA_OPTIONS: [&str; 8] =
    ["-Xmx", "-Xms", "-XX:MaxRAM", "-XX:MaxHeap", "-XX:InitialRAM", "-XX:InitialHeap", "-XX:Flags", "@"];

/// Adds these settings to a job, on a machine with this number of processors.
pub fn complete(job: &mut Job, network: Network, processors: usize) {
    let mut set: Vec<(OsString, OsString)> = vec![("PYTHONUNBUFFERED".into(), "1".into())];
    set.extend(memory(&job.limits));
    if let Some(threads) = threads(&job.limits, processors) {
        set.extend(POOLS.map(|name| (name.into(), threads.to_string().into())));
    }
    if network != Network::Proxy {
        set.extend(TRIES.map(|(name, value)| (name.into(), value.into())));
    }
    // The user's settings for leaks take precedence.
    let said = job.env.iter_mut().rfind(|(name, _)| name == LEAKS.0);
    match said {
        Some((_, value)) => {
            let mut both = OsString::from(LEAKS.1);
            both.push(":");
            both.push(&*value);
            *value = both;
        }
        None => set.push((LEAKS.0.into(), LEAKS.1.into())),
    }
    java(job, processors);
    // In front: later entries replace earlier ones.
    job.env.splice(0..0, set);
}

/// Heap limits: three quarters of the memory; the rest is for the runtime itself and memory outside the heap.
fn memory(limits: &Limits) -> [(OsString, OsString); 2] {
    let heap = limits.memory.0 / 4 * 3;
    [
        ("GOMEMLIMIT".into(), format!("{heap}B").into()),
        // The value is hexadecimal.
        ("DOTNET_GCHeapHardLimit".into(), format!("{heap:X}").into()),
    ]
}

/// Number of threads for a pool; `None` when a pool of the machine's size is fine.
fn threads(limits: &Limits, processors: usize) -> Option<usize> {
    let of_processes = usize::try_from(limits.processes / POOL_DIVISOR).unwrap_or(usize::MAX).max(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a checked number of processors, at least 0.01"
    )]
    let of_processors = limits.cpus.map_or(usize::MAX, |cpus| (cpus.ceil() as usize).max(1));
    Some(of_processes.min(of_processors)).filter(|most| *most < processors)
}

/// Sets Java's options on the command line, before all others, since Java's launcher prints a line for each
/// of its variables.
fn java(job: &mut Job, processors: usize) {
    let is_java = |program: &OsString| Path::new(program).file_name() == Some(OsStr::new("java"));
    let begins = |word: &OsString, with: &str| word.as_encoded_bytes().starts_with(with.as_bytes());
    let is_said = job.env.iter().any(|(name, _)| JAVA_VARIABLES.iter().any(|n| name == n))
        || job.argv.iter().skip(1).any(|word| JAVA_OPTIONS.iter().any(|option| begins(word, option)));
    if is_said || !job.argv.first().is_some_and(is_java) {
        return;
    }
    // Java also needs memory for classes, compiled code and thread stacks.
    let heap = job.limits.memory.0 / 1024 * 13 / 20;
    let mut options = vec![OsString::from(format!("-Xmx{heap}k"))];
    if let Some(threads) = threads(&job.limits, processors) {
        options.push(format!("-XX:ActiveProcessorCount={threads}").into());
    }
    job.argv.splice(1..1, options);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::Bytes;

    fn job(argv: &[&str], env: &[(&str, &str)]) -> Job {
        Job {
            argv: argv.iter().map(OsString::from).collect(),
            env: env.iter().map(|(n, v)| (n.into(), v.into())).collect(),
            ..Job::default()
        }
    }

    fn value<'a>(job: &'a Job, name: &str) -> Option<&'a str> {
        job.env.iter().rfind(|(n, _)| n == name).and_then(|(_, value)| value.to_str())
    }

    #[test]
    fn job_gets_runtime_variables() {
        let mut plain = job(&["python3"], &[]);
        complete(&mut plain, Network::Loopback, 4);
        for (name, want) in [
            ("PYTHONUNBUFFERED", Some("1")),
            ("GOMEMLIMIT", Some("402653184B")),
            ("DOTNET_GCHeapHardLimit", Some("18000000")),
            ("LSAN_OPTIONS", Some("detect_leaks=0")),
            ("npm_config_fetch_retries", Some("0")),
            ("OMP_NUM_THREADS", None),
        ] {
            assert_eq!(value(&plain, name), want, "{name}");
        }
    }

    #[test]
    fn set_variables_override_runtime_defaults() {
        let mut said = job(
            &["python3"],
            &[
                ("PYTHONUNBUFFERED", ""),
                ("GOMEMLIMIT", "1GiB"),
                ("LSAN_OPTIONS", "detect_leaks=1"),
                ("PIP_RETRIES", "9"),
            ],
        );
        complete(&mut said, Network::Loopback, 4);
        assert_eq!(value(&said, "PYTHONUNBUFFERED"), Some(""));
        assert_eq!(value(&said, "GOMEMLIMIT"), Some("1GiB"));
        assert_eq!(value(&said, "LSAN_OPTIONS"), Some("detect_leaks=0:detect_leaks=1"));
        assert_eq!(value(&said, "PIP_RETRIES"), Some("9"));
        let mut reached = job(&["npm"], &[]);
        complete(&mut reached, Network::Proxy, 4);
        assert_eq!(value(&reached, "npm_config_fetch_retries"), None);
    }

    #[test]
    fn thread_pool_size_follows_limits() {
        for (processes, cpus, processors, want) in [
            (64, None, 2, None),
            (64, None, 8, None),
            (64, None, 64, Some(8)),
            (4, None, 2, Some(1)),
            (512, None, 64, None),
            (512, None, 128, Some(64)),
            (64, Some(1.5), 8, Some(2)),
            (64, Some(0.1), 8, Some(1)),
            (64, Some(16.0), 8, None),
        ] {
            let limits = Limits { processes, cpus, ..Limits::default() };
            assert_eq!(threads(&limits, processors), want, "{processes} {cpus:?} {processors}");
        }
    }

    #[test]
    fn java_has_a_heap_that_fits() {
        let options = |argv: &[&str], env: &[(&str, &str)]| {
            let mut job = job(argv, env);
            job.limits.memory = Bytes::mib(500);
            complete(&mut job, Network::Loopback, 2);
            job.argv.into_iter().skip(1).map(|w| w.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(options(&["/usr/bin/java", "-jar", "a"], &[]), ["-Xmx332800k", "-jar", "a"]);
        for (argv, env) in [
            (&["java", "-Xmx1g", "A"][..], &[][..]),
            (&["java", "-Xms1g", "A"], &[]),
            (&["java", "-XX:MaxRAMPercentage=80", "A"], &[]),
            (&["java", "@options"], &[]),
            (&["java", "A"], &[("JAVA_TOOL_OPTIONS", "-Xmx1g")]),
            (&["javac", "A"], &[]),
        ] {
            assert_eq!(options(argv, env).len(), argv.len() - 1, "{argv:?}");
        }
    }
}
