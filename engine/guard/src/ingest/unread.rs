//! Languages that the guard does not read, by the file names and first lines that indicate an interpreter for
//! them.
//!
//! Such a file is reported with its language and not read: it needs review if it is merely present, and makes
//! the scan incomplete if the command executes it.

/// Extensions and their languages.
const ENDINGS: &[(&str, &str)] = &[
    ("pl", "perl"),
    ("pm", "perl"),
    ("t", "perl"),
    ("rb", "ruby"),
    ("rake", "ruby"),
    ("gemspec", "ruby"),
    ("ru", "ruby"),
    ("php", "php"),
    ("php3", "php"),
    ("php5", "php"),
    ("phtml", "php"),
    ("phar", "php"),
    ("awk", "awk"),
    ("sed", "sed"),
    ("tcl", "tcl"),
    ("tk", "tcl"),
    ("exp", "expect"),
    ("lua", "lua"),
    ("luau", "lua"),
    ("rockspec", "lua"),
    ("r", "r"),
    ("rprofile", "r"),
    ("rmd", "r"),
    ("jl", "julia"),
    ("bat", "batch"),
    ("cmd", "batch"),
    ("vbs", "vbscript"),
    ("vbe", "vbscript"),
    ("wsf", "windows script"),
    ("hta", "html application"),
    ("applescript", "applescript"),
    ("scpt", "applescript"),
    ("fish", "fish"),
    ("csh", "csh"),
    ("tcsh", "csh"),
    ("nu", "nushell"),
    ("elv", "elvish"),
    ("xsh", "xonsh"),
    ("cs", "c#"),
    ("csx", "c#"),
    ("fs", "f#"),
    ("fsx", "f#"),
    ("vb", "visual basic"),
    ("kt", "kotlin"),
    ("kts", "kotlin"),
    ("groovy", "groovy"),
    ("gradle", "groovy"),
    ("gvy", "groovy"),
    ("scala", "scala"),
    ("sc", "scala"),
    ("sbt", "scala"),
    ("clj", "clojure"),
    ("cljs", "clojure"),
    ("cljc", "clojure"),
    ("bb", "clojure"),
    ("ex", "elixir"),
    ("exs", "elixir"),
    ("erl", "erlang"),
    ("escript", "erlang"),
    ("hs", "haskell"),
    ("lhs", "haskell"),
    ("ml", "ocaml"),
    ("mli", "ocaml"),
    ("el", "emacs lisp"),
    ("lisp", "lisp"),
    ("scm", "scheme"),
    ("ss", "scheme"),
    ("rkt", "racket"),
    ("vim", "vim script"),
    ("swift", "swift"),
    ("dart", "dart"),
    ("zig", "zig"),
    ("nim", "nim"),
    ("nims", "nim"),
    ("cr", "crystal"),
    ("d", "d"),
    ("m", "objective-c"),
    ("mm", "objective-c"),
    ("f90", "fortran"),
    ("pas", "pascal"),
    ("adb", "ada"),
    ("coffee", "coffeescript"),
    ("vue", "vue"),
    ("svelte", "svelte"),
    ("astro", "astro"),
    ("bzl", "starlark"),
    ("star", "starlark"),
    ("nix", "nix"),
    ("pp", "puppet"),
    ("gdb", "gdb script"),
    ("gp", "gnuplot"),
    ("gnuplot", "gnuplot"),
    ("jq", "jq"),
    ("m4", "m4"),
    ("wat", "webassembly"),
    ("ll", "llvm"),
    ("s", "assembly"),
    ("asm", "assembly"),
];

/// Complete names and their languages.
const NAMES: &[(&str, &str)] = &[
    ("rakefile", "ruby"),
    ("gemfile", "ruby"),
    ("vagrantfile", "ruby"),
    ("podfile", "ruby"),
    ("brewfile", "ruby"),
    ("guardfile", "ruby"),
    ("capfile", "ruby"),
    (".irbrc", "ruby"),
    (".pryrc", "ruby"),
    (".rprofile", "r"),
    ("jenkinsfile", "groovy"),
    ("build", "starlark"),
    ("build.bazel", "starlark"),
    ("workspace.bazel", "starlark"),
    ("tiltfile", "starlark"),
    ("cpanfile", "perl"),
    (".gdbinit", "gdb script"),
    (".vimrc", "vim script"),
    (".exrc", "vim script"),
    (".emacs", "emacs lisp"),
    (".tclshrc", "tcl"),
    (".cshrc", "csh"),
    (".tcshrc", "csh"),
];

/// Extensions that usually have another meaning: the language applies only to text that looks like a program
/// in it.
const SHARED: &[(&str, &[&str])] = &[
    ("t", &["use ", "#!", "package ", "require "]),
    ("d", &["import ", "module "]),
    ("m", &["#import", "@interface", "@implementation", "function ", "@protocol"]),
    ("r", &["<-", "library(", "function("]),
    ("s", &[".text", ".globl", ".global", ".section"]),
    ("exp", &["spawn ", "#!"]),
    ("star", &["def ", "load("]),
];

/// True when a complete name, in lower case, indicates one of these languages.
pub(super) fn is_named(base: &str) -> bool {
    NAMES.iter().any(|(name, _)| *name == base)
}

/// Language indicated by a name in lower case; `None` for unknown names, or a language that the guard reads.
pub(super) fn by_name(base: &str, text: &str) -> Option<&'static str> {
    if let Some((_, language)) = NAMES.iter().find(|(name, _)| *name == base) {
        return (*language != "starlark" || base != "build" || text.contains('(')).then_some(language);
    }
    let ending = base.rsplit_once('.').map(|(_, ending)| ending)?;
    let (_, language) = ENDINGS.iter().find(|(own, _)| *own == ending)?;
    let looks = SHARED.iter().find(|(own, _)| *own == ending).map(|(_, looks)| looks);
    looks.is_none_or(|looks| looks.iter().any(|look| text.contains(look))).then_some(language)
}
