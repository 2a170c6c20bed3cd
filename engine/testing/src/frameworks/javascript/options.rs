//! Options of JavaScript's test runners: which take a value, and which are set by hotcell itself. An unknown
//! option takes the next word as its value, unless that begins with a dash.

use super::shell::Word;

/// Options of one program.
#[derive(Debug)]
pub struct Options {
    /// Options without a value.
    alone: &'static [&'static str],
    /// Options whose value is the next word, even if other options are unknown.
    valued: &'static [&'static str],
    /// Options in neither list take a value only after `=`.
    strict: bool,
    /// Options that take every word up to the next option.
    greedy: &'static [&'static str],
    /// Options that select tests by name.
    names: &'static [&'static str],
    /// Options that select files.
    files: &'static [&'static str],
    /// Options that hotcell sets itself, and those that only affect the display of results.
    ours: &'static [&'static str],
}

/// Options of a program.
#[must_use]
pub fn of(program: &str) -> Option<&'static Options> {
    Some(match program {
        "mocha" => &MOCHA,
        "jest" => &JEST,
        "vitest" => &VITEST,
        "jasmine" => &JASMINE,
        "node" => &NODE,
        "tape" => &TAPE,
        "tap" => &TAP,
        "ava" => &AVA,
        "c8" | "nyc" => &COVERAGE,
        _ => return None,
    })
}

const MOCHA: Options = Options {
    alone: &[
        "--allow-uncaught",
        "-A",
        "--async-only",
        "-b",
        "--bail",
        "--check-leaks",
        "-c",
        "--color",
        "-C",
        "--no-color",
        "--colors",
        "--diff",
        "--no-diff",
        "--dry-run",
        "--enable-source-maps",
        "--exit",
        "--no-exit",
        "--fail-zero",
        "--forbid-only",
        "--forbid-pending",
        "--full-trace",
        "-G",
        "--growl",
        "-i",
        "--invert",
        "--inline-diffs",
        "--no-config",
        "--no-opts",
        "--no-package",
        "--no-timeouts",
        "--no-timeout",
        "--parallel",
        "-p",
        "--no-parallel",
        "--pass-on-failing-test-suite",
        "--posix-exit-codes",
        "--recursive",
        "-S",
        "--sort",
        "--delay",
        "-w",
        "--watch",
        "--expose-gc",
        "--expose_gc",
        "--gc",
        "--no-warnings",
        "--no-deprecation",
        "--trace-deprecation",
        "--trace-warnings",
        "--throw-deprecation",
        "--harmony",
        "--inspect",
        "--inspect-brk",
        "--preserve-symlinks",
        "--use-strict",
        "--no-experimental-strip-types",
        "--experimental-vm-modules",
        "--experimental-strip-types",
        "--experimental-modules",
        "--experimental-json-modules",
        "--experimental-transform-types",
        "--experimental-require-module",
        "--experimental-wasm-modules",
        "--experimental-sqlite",
        "--experimental-global-webcrypto",
        "--experimental-import-meta-resolve",
        "--no-experimental-require-module",
    ],
    valued: &[],
    strict: false,
    greedy: &[],
    names: &["-g", "--grep", "-f", "--fgrep", "-i", "--invert"],
    files: &["--spec", "--shard"],
    ours: &[
        "-R",
        "--reporter",
        "-O",
        "--reporter-option",
        "--reporter-options",
        "-p",
        "--parallel",
        "--no-parallel",
        "-j",
        "--jobs",
        "-w",
        "--watch",
        "--watch-files",
        "--watch-ignore",
        "-c",
        "--color",
        "-C",
        "--no-color",
        "--colors",
        "-G",
        "--growl",
        "--inspect",
        "--inspect-brk",
        "--exit",
        "--no-exit",
    ],
};

const JEST: Options = Options {
    alone: &[
        "--all",
        "--automock",
        "-b",
        "--bail",
        "--cache",
        "--changedFilesWithAncestor",
        "--ci",
        "--clearCache",
        "--clearMocks",
        "--collectCoverage",
        "--color",
        "--colors",
        "--coverage",
        "--debug",
        "--detectLeaks",
        "--detectOpenHandles",
        "--errorOnDeprecated",
        "-e",
        "--expand",
        "--findRelatedTests",
        "--forceExit",
        "--injectGlobals",
        "--json",
        "--lastCommit",
        "--listTests",
        "--logHeapUsage",
        "--noStackTrace",
        "--notify",
        "-o",
        "--onlyChanged",
        "-f",
        "--onlyFailures",
        "--passWithNoTests",
        "--randomize",
        "--resetMocks",
        "--resetModules",
        "--restoreMocks",
        "-i",
        "--runInBand",
        "--runTestsByPath",
        "--showConfig",
        "--showSeed",
        "--silent",
        "--skipFilter",
        "--testLocationInResults",
        "-u",
        "--updateSnapshot",
        "--useStderr",
        "--verbose",
        "--waitForUnhandledRejections",
        "--watch",
        "--watchAll",
        "--watchman",
        "--workerThreads",
        "--no-cache",
        "--no-coverage",
        "--no-watchman",
        "--no-colors",
        "--no-color",
        "--no-verbose",
        "--no-silent",
        "--no-watch",
        "--no-ci",
        "--no-injectGlobals",
    ],
    valued: &[],
    strict: false,
    greedy: &[
        "--reporters",
        "--coverageReporters",
        "--collectCoverageFrom",
        "--testPathPatterns",
        "--testPathPattern",
        "--testPathIgnorePatterns",
        "--projects",
        "--selectProjects",
        "--ignoreProjects",
        "--setupFiles",
        "--setupFilesAfterEnv",
        "--roots",
        "--testMatch",
        "--testRegex",
        "--moduleFileExtensions",
        "--moduleDirectories",
        "--snapshotSerializers",
        "--coveragePathIgnorePatterns",
        "--modulePathIgnorePatterns",
        "--watchPathIgnorePatterns",
        "--transformIgnorePatterns",
        "--unmockedModulePathPatterns",
        "--modulePaths",
    ],
    names: &["-t", "--testNamePattern", "--coverage", "--collectCoverage", "--coverageThreshold"],
    files: &[
        "--coverage",
        "--collectCoverage",
        "--coverageThreshold",
        "--testPathPatterns",
        "--testPathPattern",
        "--shard",
        "-o",
        "--onlyChanged",
        "--changedSince",
        "--lastCommit",
        "--findRelatedTests",
        "-f",
        "--onlyFailures",
        "--runTestsByPath",
    ],
    ours: &[
        "--reporters",
        "--json",
        "--outputFile",
        "--watch",
        "--watchAll",
        "--no-watch",
        "-w",
        "--maxWorkers",
        "-i",
        "--runInBand",
        "--maxConcurrency",
        "--notify",
        "--notifyMode",
        "--color",
        "--colors",
        "--no-color",
        "--no-colors",
        "--ci",
        "--no-ci",
        "--watchman",
        "--no-watchman",
        "--forceExit",
        "--testLocationInResults",
        "--passWithNoTests",
        "--testFailureExitCode",
        "--verbose",
        "--workerThreads",
        "--testResultsProcessor",
        "--coverageReporters",
        "--coverageDirectory",
        "--listTests",
        "--showConfig",
    ],
};

const VITEST: Options = Options {
    alone: &[
        "-u",
        "--update",
        "-w",
        "--watch",
        "--ui",
        "--open",
        "--api",
        "--silent",
        "--hideSkippedTests",
        "--coverage",
        "--isolate",
        "--globals",
        "--dom",
        "--no-coverage",
        "--no-isolate",
        "--no-file-parallelism",
        "--fileParallelism",
        "--no-watch",
        "--run",
        "--passWithNoTests",
        "--allowOnly",
        "--no-color",
        "--color",
        "--inspect",
        "--typecheck",
        "--expandSnapshotDiff",
        "--disableConsoleIntercept",
        "--logHeapUsage",
        "--dangerouslyIgnoreUnhandledErrors",
        "--standalone",
        "--clearScreen",
        "--no-clearScreen",
        "--no-threads",
        "--threads",
        "--printConsoleTrace",
        "--includeTaskLocation",
        "--no-cache",
        "--browser",
        "--no-passWithNoTests",
        "--changed",
    ],
    valued: &[],
    strict: false,
    greedy: &[],
    names: &["-t", "--testNamePattern"],
    files: &["--shard", "--changed"],
    ours: &[
        "--reporter",
        "--outputFile",
        "-w",
        "--watch",
        "--no-watch",
        "--run",
        "--ui",
        "--open",
        "--api",
        "--maxWorkers",
        "--minWorkers",
        "--fileParallelism",
        "--no-file-parallelism",
        "--color",
        "--no-color",
        "--hideSkippedTests",
        "--clearScreen",
        "--no-clearScreen",
        "--passWithNoTests",
        "--no-passWithNoTests",
        "--includeTaskLocation",
        "--inspect",
        "--logHeapUsage",
    ],
};

const JASMINE: Options = Options {
    alone: &["--parallel", "--no-color", "--color", "--fail-fast", "--verbose"],
    valued: &[],
    strict: true,
    greedy: &[],
    names: &["--filter", "--filter-path"],
    files: &[],
    ours: &["--parallel", "--no-color", "--color", "--reporter", "--verbose"],
};

const NODE: Options = Options {
    alone: &[],
    valued: &[
        "--import",
        "--require",
        "-r",
        "--loader",
        "--experimental-loader",
        "-C",
        "--conditions",
        "--env-file",
        "--test-reporter",
        "--test-reporter-destination",
        "--test-name-pattern",
        "--test-skip-pattern",
        "--test-timeout",
        "--test-concurrency",
        "--test-shard",
        "--test-isolation",
        "--experimental-test-isolation",
        "--test-coverage-include",
        "--test-coverage-exclude",
        "--test-global-setup",
        "--experimental-default-type",
        "--input-type",
        "--title",
        "--icu-data-dir",
        "--openssl-config",
        "--tsconfig",
        "--watch-path",
        "--max-http-header-size",
        "--unhandled-rejections",
        "--stack-trace-limit",
        "--dns-result-order",
        "--diagnostic-dir",
        "-e",
        "--eval",
        "-p",
        "--print",
        "--test-coverage-lines",
        "--test-coverage-branches",
        "--test-coverage-functions",
        "--test-rerun-failures",
    ],
    strict: true,
    greedy: &[],
    names: &["--test-name-pattern", "--test-skip-pattern"],
    files: &["--test-shard"],
    ours: &[
        "--test-reporter",
        "--test-reporter-destination",
        "--test-concurrency",
        "--watch",
        "--watch-path",
        "--watch-preserve-output",
    ],
};

const TAPE: Options = Options {
    alone: &[],
    valued: &["-r", "--require", "-i", "--ignore", "--ignore-pattern"],
    strict: true,
    greedy: &[],
    names: &[],
    files: &[],
    ours: &[],
};

const TAP: Options = Options {
    alone: &[],
    valued: &[
        "-R",
        "--reporter",
        "--reporter-arg",
        "-j",
        "--jobs",
        "-t",
        "--timeout",
        "-g",
        "--grep",
        "-A",
        "--test-arg",
        "--test-env",
        "--node-arg",
        "--nyc-arg",
        "-M",
        "--coverage-map",
        "--coverage-report",
        "-s",
        "--save",
        "-o",
        "--output-file",
        "-d",
        "--output-dir",
        "--test-regex",
        "--test-ignore",
        "--files",
        "--statements",
        "--branches",
        "--lines",
        "--functions",
        "--plugin",
        "--include",
        "--exclude",
        "--before",
        "--after",
        "--rcfile",
        "--snapshot-clean-cwd",
    ],
    strict: true,
    greedy: &[],
    names: &["-g", "--grep", "-i", "--invert", "-O", "--only"],
    files: &["--files", "-s", "--save", "--changed"],
    ours: &["-R", "--reporter", "--reporter-arg", "-c", "--color", "-C", "--no-color", "-w", "--watch"],
};

const AVA: Options = Options {
    alone: &[],
    valued: &["-c", "--concurrency", "--config", "-m", "--match", "-T", "--timeout", "--node-arguments"],
    strict: true,
    greedy: &[],
    names: &["-m", "--match"],
    files: &[],
    ours: &["-t", "--tap", "--no-tap", "-w", "--watch", "--color", "--no-color", "-v", "--verbose"],
};

const COVERAGE: Options = Options {
    alone: &[],
    valued: &[
        "--reporter",
        "-r",
        "--include",
        "-n",
        "--exclude",
        "-x",
        "--extension",
        "-e",
        "--require",
        "-i",
        "--temp-dir",
        "-t",
        "--temp-directory",
        "--report-dir",
        "--reports-dir",
        "-o",
        "--lines",
        "--branches",
        "--functions",
        "--statements",
        "--cwd",
        "--watermarks",
        "--config",
        "-c",
        "--nycrc-path",
        "--src",
        "--resolve",
        "--wrapper-length",
        "--parser-plugins",
    ],
    strict: true,
    greedy: &[],
    names: &[],
    files: &[],
    ours: &[],
};

/// Kind of a piece of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An option, with its value.
    Option,
    /// `--`: the following words are not options.
    End,
    /// Names of files or tests.
    Positional,
}

impl Options {
    /// Splits words into pieces: each option with its value, and each other word.
    fn split<'a>(&self, words: &'a [Word]) -> Vec<(Kind, &'a [Word])> {
        let mut pieces = Vec::new();
        let mut at = 0;
        let mut ended = false;
        while let Some(word) = words.get(at) {
            let name = word.text.as_str();
            let kind = match () {
                () if ended || !name.starts_with('-') || name == "-" => Kind::Positional,
                () if name == "--" => Kind::End,
                () => Kind::Option,
            };
            ended |= kind == Kind::End;
            let mut length = 1;
            if kind == Kind::Option {
                let bare = name.split('=').next().unwrap_or_default();
                let values = words[at + 1..].iter().take_while(|next| !next.text.starts_with('-')).count();
                let valued = self.valued.contains(&name)
                    || !self.strict && !self.alone.contains(&name) && !name.contains('=');
                if self.greedy.contains(&bare) {
                    length += values;
                } else if valued {
                    length += values.min(1);
                }
            }
            pieces.push((kind, &words[at..at + length]));
            at += length;
        }
        pieces
    }

    /// Words from the first one that is not an option.
    #[must_use]
    pub fn positional<'a>(&self, words: &'a [Word]) -> Option<&'a [Word]> {
        let mut at = 0;
        for (kind, piece) in self.split(words) {
            match kind {
                Kind::Option => at += piece.len(),
                Kind::End => return words.get(at + 1..),
                Kind::Positional => return words.get(at..),
            }
        }
        None
    }

    /// Number of words that select tests or files.
    #[must_use]
    pub fn choices(&self, words: &[Word]) -> usize {
        let chooses = |(kind, piece): &(Kind, &[Word])| {
            let name = piece[0].text.split('=').next().unwrap_or_default();
            match kind {
                Kind::Positional => true,
                Kind::End => false,
                // Coverage options are in both lists, since they are removed in both cases.
                Kind::Option => self.names.contains(&name) != self.files.contains(&name),
            }
        };
        self.split(words).iter().filter(|piece| chooses(piece)).count()
    }

    /// Words without those that hotcell sets itself, and without those that select tests by name, or by file.
    #[must_use]
    pub fn keep(&self, words: &[Word], names: bool, files: bool) -> Vec<Word> {
        let stays = |kind: Kind, piece: &[Word]| {
            let name = piece[0].text.split('=').next().unwrap_or_default();
            match kind {
                Kind::Positional | Kind::End => !files,
                Kind::Option => {
                    let ours = self.ours.contains(&name);
                    let chosen = names && self.names.contains(&name) || files && self.files.contains(&name);
                    !ours && !chosen
                }
            }
        };
        self.split(words)
            .into_iter()
            .filter(|(kind, piece)| stays(*kind, piece))
            .flat_map(|(_, piece)| piece.to_vec())
            .collect()
    }
}
