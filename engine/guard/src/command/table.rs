//! Programs that execute their arguments, with their argument grammars. A row is data; for other programs
//! only the program file itself is read, if it is a file of the project.

use super::grammar::{Grammar, Operand, Role};
use super::wrappers::options;
use super::{As, wrappers};
use crate::language::Language;

pub(super) const SHELL: As = As::Read(Language::Bash);
pub(super) const PYTHON: As = As::Read(Language::Python);
const JS: As = As::Read(Language::JavaScript);
const SQL: As = As::Read(Language::Sql);
const POWERSHELL: As = As::Read(Language::PowerShell);
const PERL: As = As::Unread("perl");
const RUBY: As = As::Unread("ruby");
const PHP: As = As::Unread("php");
pub(super) const LUA: As = As::Unread("lua");
const R: As = As::Unread("r");
const TCL: As = As::Unread("tcl");
const LISP: As = As::Unread("lisp");
const VIM: As = As::Unread("vim script");
const GDB: As = As::Unread("gdb script");

const SHELLS: Grammar = Grammar {
    short: &[
        ("c", Role::First(SHELL)),
        ("s", Role::Stdin(SHELL)),
        ("i", Role::After(SHELL)),
        ("oO+", Role::Aside),
    ],
    long: &[("rcfile", Role::File(SHELL)), ("init-file", Role::File(SHELL))],
    operand: Operand::Script(SHELL),
    stdin: Some(SHELL),
    single: true,
    ..Grammar::NONE
};
/// fish: options may follow the text, and other texts are executed before it.
const FISH: Grammar = Grammar {
    short: &[("c", Role::Text(SHELL)), ("C", Role::Text(SHELL)), ("dfDo", Role::Value)],
    long: &[("command", Role::Text(SHELL)), ("init-command", Role::Text(SHELL))],
    operand: Operand::Script(SHELL),
    stdin: Some(SHELL),
    ..Grammar::NONE
};
const PYTHONS: Grammar = Grammar {
    short: &[
        ("c", Role::Text(PYTHON)),
        ("m", Role::Module),
        ("WXQ", Role::Value),
        ("i", Role::After(PYTHON)),
    ],
    long: &[("check-hash-based-pycs", Role::Value)],
    operand: Operand::Script(PYTHON),
    stdin: Some(PYTHON),
    text_ends: true,
    ..Grammar::NONE
};
const NODE: Grammar = Grammar {
    short: &[("ep", Role::Text(JS)), ("r", Role::File(JS)), ("C", Role::Value), ("i", Role::After(JS))],
    long: &[
        ("eval", Role::Text(JS)),
        ("print", Role::Text(JS)),
        ("pe", Role::Text(JS)),
        ("require", Role::File(JS)),
        ("import", Role::File(JS)),
        ("loader", Role::File(JS)),
        ("experimental-loader", Role::File(JS)),
        ("conditions", Role::Value),
        ("env-file", Role::File(As::Variables)),
        ("env-file-if-exists", Role::File(As::Variables)),
        ("input-type", Role::Value),
        ("title", Role::Value),
        ("interactive", Role::After(JS)),
    ],
    operand: Operand::Script(JS),
    stdin: Some(JS),
    single: true,
    ..Grammar::NONE
};
const PERLS: Grammar = Grammar {
    short: &[("eE", Role::Text(PERL)), ("I", Role::Value), ("iFMmVx", Role::Attached)],
    operand: Operand::Script(PERL),
    stdin: Some(PERL),
    ..Grammar::NONE
};
const RUBYS: Grammar = Grammar {
    short: &[
        ("e", Role::Text(RUBY)),
        ("r", Role::File(RUBY)),
        ("CEIX", Role::Value),
        ("FKTxi", Role::Attached),
    ],
    operand: Operand::Script(RUBY),
    stdin: Some(RUBY),
    ..Grammar::NONE
};
const PHPS: Grammar = Grammar {
    short: &[
        ("rBRE", Role::Text(PHP)),
        ("fF", Role::Script(PHP)),
        ("cdzSt", Role::Value),
        ("lvmi", Role::Data),
    ],
    long: &[
        ("run", Role::Text(PHP)),
        ("process-begin", Role::Text(PHP)),
        ("process-code", Role::Text(PHP)),
        ("process-end", Role::Text(PHP)),
        ("file", Role::Script(PHP)),
        ("process-file", Role::Script(PHP)),
        ("define", Role::Value),
    ],
    operand: Operand::Script(PHP),
    stdin: Some(PHP),
    ..Grammar::NONE
};
/// Grammar of the usual form, for programs of a language that the guard does not read.
const fn unread(
    language: As,
    short: &'static [(&'static str, Role)],
    long: &'static [(&'static str, Role)],
) -> Grammar {
    Grammar {
        short,
        long,
        operand: Operand::Script(language),
        stdin: Some(language),
        single: true,
        ..Grammar::NONE
    }
}
const PSQL: Grammar = Grammar {
    short: &[("ce", Role::Text(SQL)), ("f", Role::Script(SQL)), ("dhpUvoLFRTPuDS", Role::Value)],
    long: &[
        ("command", Role::Text(SQL)),
        ("execute", Role::Text(SQL)),
        ("init-command", Role::Also(SQL)),
        ("file", Role::Script(SQL)),
        ("dbname", Role::Value),
        ("host", Role::Value),
        ("port", Role::Value),
        ("username", Role::Value),
        ("set", Role::Value),
        ("variable", Role::Value),
        ("output", Role::Value),
    ],
    stdin: Some(SQL),
    stops: false,
    ..Grammar::NONE
};
/// sqlite and DuckDB: options are whole words behind one dash or two, never clusters of letters. After an unknown
/// one standard input is read, too.
const SQLITE: Grammar = Grammar {
    long: &[
        ("cmd", Role::Also(SQL)),
        ("init", Role::File(SQL)),
        ("separator", Role::Value),
        ("newline", Role::Value),
        ("nullvalue", Role::Value),
        ("mmap", Role::Value),
        ("vfs", Role::Value),
        ("maxsize", Role::Value),
        ("heap", Role::Value),
        ("escape", Role::Value),
        ("sorterref", Role::Value),
        ("threadsafe", Role::Value),
        ("nonce", Role::Value),
        ("key", Role::Value),
        ("hexkey", Role::Value),
        ("textkey", Role::Value),
        ("lookaside", Role::Pair),
        ("pagecache", Role::Pair),
        ("append", Role::Switch),
        ("ascii", Role::Switch),
        ("bail", Role::Switch),
        ("batch", Role::Switch),
        ("box", Role::Switch),
        ("column", Role::Switch),
        ("csv", Role::Switch),
        ("deserialize", Role::Switch),
        ("echo", Role::Switch),
        ("header", Role::Switch),
        ("noheader", Role::Switch),
        ("help", Role::Data),
        ("html", Role::Switch),
        ("ifexists", Role::Switch),
        ("interactive", Role::Switch),
        ("json", Role::Switch),
        ("jsonlines", Role::Switch),
        ("line", Role::Switch),
        ("list", Role::Switch),
        ("markdown", Role::Switch),
        ("memtrace", Role::Switch),
        ("multiplex", Role::Switch),
        ("nofollow", Role::Switch),
        ("no-rowid-in-view", Role::Switch),
        ("no-stdin", Role::Switch),
        ("quote", Role::Switch),
        ("readonly", Role::Switch),
        ("safe", Role::Switch),
        ("stats", Role::Switch),
        ("table", Role::Switch),
        ("tabs", Role::Switch),
        ("unredacted", Role::Switch),
        ("unsafe-testing", Role::Switch),
        ("unsigned", Role::Switch),
        ("utf8", Role::Switch),
        ("no-utf8", Role::Switch),
        ("version", Role::Data),
        ("vfstrace", Role::Switch),
        ("zip", Role::Switch),
    ],
    operand: Operand::Texts(1, SQL),
    stdin: Some(SQL),
    stops: false,
    single: true,
    ..Grammar::NONE
};
const DUCKDB: Grammar = Grammar {
    long: &[
        ("c", Role::Text(SQL)),
        ("s", Role::Text(SQL)),
        ("f", Role::Script(SQL)),
        ("cmd", Role::Also(SQL)),
        ("init", Role::File(SQL)),
        ("separator", Role::Value),
        ("newline", Role::Value),
        ("nullvalue", Role::Value),
        ("storage-version", Role::Value),
        ("ascii", Role::Switch),
        ("bail", Role::Switch),
        ("batch", Role::Switch),
        ("box", Role::Switch),
        ("column", Role::Switch),
        ("csv", Role::Switch),
        ("echo", Role::Switch),
        ("header", Role::Switch),
        ("noheader", Role::Switch),
        ("help", Role::Data),
        ("html", Role::Switch),
        ("interactive", Role::Switch),
        ("json", Role::Switch),
        ("jsonlines", Role::Switch),
        ("line", Role::Switch),
        ("list", Role::Switch),
        ("markdown", Role::Switch),
        ("no-stdin", Role::Switch),
        ("quote", Role::Switch),
        ("readonly", Role::Switch),
        ("safe", Role::Switch),
        ("stats", Role::Switch),
        ("table", Role::Switch),
        ("unredacted", Role::Switch),
        ("unsigned", Role::Switch),
        ("version", Role::Data),
    ],
    ..SQLITE
};
const PWSH: Grammar = Grammar {
    short: &[],
    long: &[
        ("Command", Role::Text(POWERSHELL)),
        ("command", Role::Text(POWERSHELL)),
        ("c", Role::Text(POWERSHELL)),
        ("File", Role::Script(POWERSHELL)),
        ("file", Role::Script(POWERSHELL)),
        ("f", Role::Script(POWERSHELL)),
        ("ExecutionPolicy", Role::Value),
        ("ep", Role::Value),
        ("WorkingDirectory", Role::Value),
    ],
    operand: Operand::Script(POWERSHELL),
    stdin: Some(POWERSHELL),
    single: true,
    ..Grammar::NONE
};
const JAVA: Grammar = Grammar {
    long: &[
        ("jar", Role::Script(As::Own)),
        ("cp", Role::File(As::Own)),
        ("classpath", Role::File(As::Own)),
        ("class-path", Role::File(As::Own)),
        ("p", Role::File(As::Own)),
        ("module-path", Role::File(As::Own)),
    ],
    operand: Operand::Script(As::Read(Language::Java)),
    single: true,
    ..Grammar::NONE
};
/// Argument grammar of a program by its name, without version and extension.
pub(super) fn grammar(name: &str) -> Option<Grammar> {
    Some(match name {
        "sh" | "bash" | "dash" | "ash" | "ksh" | "mksh" | "lksh" | "pdksh" | "rbash" | "zsh" | "yash"
        | "posh" | "sash" | "oksh" | "loksh" | "brush" | "csh" | "tcsh" | "hush" | "rc" | "es" | "osh"
        | "ysh" | "elvish" | "nu" | "xonsh" => SHELLS,
        "fish" => FISH,
        "python" | "pypy" | "ipython" | "micropython" | "jython" => PYTHONS,
        "python-dbg" => PYTHONS,
        "node" | "nodejs" | "qjs" | "d8" | "gjs" => NODE,
        "ts-node" | "tsx" | "electron" | "nodemon" => NODE,
        "perl" | "suidperl" => PERLS,
        "ruby" | "jruby" | "irb" | "mruby" => RUBYS,
        "php" | "php-cgi" => PHPS,
        "lua" | "luajit" | "luau" => {
            unread(LUA, &[("e", Role::Text(LUA)), ("l", Role::Value), ("i", Role::After(LUA))], &[])
        }
        "Rscript" | "R" | "littler" => {
            unread(R, &[("e", Role::Text(R)), ("f", Role::Script(R))], &[("file", Role::Script(R))])
        }
        "tclsh" | "wish" | "expect" | "jimsh" => {
            unread(TCL, &[("c", Role::Text(TCL)), ("f", Role::Script(TCL))], &[])
        }
        "guile" | "scheme" | "racket" | "csi" | "gosh" => {
            unread(LISP, &[("ce", Role::Text(LISP)), ("lsfr", Role::Script(LISP)), ("L", Role::Value)], &[])
        }
        "sbcl" | "clisp" | "ecl" => unread(
            LISP,
            &[("x", Role::Text(LISP)), ("i", Role::File(LISP))],
            &[("eval", Role::Text(LISP)), ("load", Role::Script(LISP)), ("script", Role::Script(LISP))],
        ),
        "emacs" => unread(
            As::Unread("emacs lisp"),
            &[("l", Role::Script(As::Unread("emacs lisp"))), ("f", Role::Value)],
            &[
                ("eval", Role::Text(As::Unread("emacs lisp"))),
                ("execute", Role::Text(As::Unread("emacs lisp"))),
                ("load", Role::Script(As::Unread("emacs lisp"))),
                ("script", Role::Script(As::Unread("emacs lisp"))),
                ("funcall", Role::Value),
            ],
        ),
        "julia" => unread(
            As::Unread("julia"),
            &[
                ("eE", Role::Text(As::Unread("julia"))),
                ("L", Role::File(As::Unread("julia"))),
                ("ptC", Role::Value),
            ],
            &[("eval", Role::Text(As::Unread("julia"))), ("print", Role::Text(As::Unread("julia")))],
        ),
        "elixir" | "iex" => unread(
            As::Unread("elixir"),
            &[("e", Role::Text(As::Unread("elixir"))), ("r", Role::File(As::Unread("elixir")))],
            &[("eval", Role::Text(As::Unread("elixir")))],
        ),
        "erl" | "escript" => unread(As::Unread("erlang"), &[], &[("eval", Role::Text(As::Unread("erlang")))]),
        "groovy" | "scala" | "kotlin" | "kotlinc" | "clojure" | "clj" | "jshell" => unread(
            As::Unread("a language of the Java machine"),
            &[("e", Role::Text(As::Unread("a language of the Java machine")))],
            &[("eval", Role::Text(As::Unread("a language of the Java machine")))],
        ),
        "runghc" | "runhaskell" | "ghci" => {
            unread(As::Unread("haskell"), &[("e", Role::Text(As::Unread("haskell")))], &[])
        }
        "ghc" => options(&[("e", Role::Text(As::Unread("haskell")))], &[]),
        "ocaml" => unread(
            As::Unread("ocaml"),
            &[("e", Role::Text(As::Unread("ocaml")))],
            &[("init", Role::File(As::Unread("ocaml")))],
        ),
        "swipl" | "gprolog" => unread(
            As::Unread("prolog"),
            &[("gt", Role::Text(As::Unread("prolog"))), ("slf", Role::Script(As::Unread("prolog")))],
            &[],
        ),
        "octave" | "octave-cli" => {
            unread(As::Unread("octave"), &[], &[("eval", Role::Text(As::Unread("octave")))])
        }
        "gnuplot" => unread(As::Unread("gnuplot"), &[("e", Role::Text(As::Unread("gnuplot")))], &[]),
        "m4" => Grammar {
            operand: Operand::Each(As::Unread("m4")),
            stdin: Some(As::Unread("m4")),
            stops: false,
            ..Grammar::NONE
        },
        "dc" => unread(
            As::Unread("dc"),
            &[("e", Role::Text(As::Unread("dc"))), ("f", Role::Script(As::Unread("dc")))],
            &[],
        ),
        "ed" | "red" => {
            Grammar { short: &[("p", Role::Value)], stdin: Some(As::Unread("ed script")), ..Grammar::NONE }
        }
        "ex" => Grammar { stdin: Some(VIM), ..VIMS },
        "vim" | "vi" | "nvim" | "view" | "gvim" | "rvim" | "vimdiff" | "editor" => VIMS,
        "gdb" | "lldb" => Grammar {
            short: &[("xsSo", Role::File(GDB)), ("k", Role::Text(GDB)), ("pcd", Role::Value)],
            long: &[
                ("ex", Role::Text(GDB)),
                ("iex", Role::Text(GDB)),
                ("eval-command", Role::Text(GDB)),
                ("init-eval-command", Role::Text(GDB)),
                ("one-line", Role::Text(GDB)),
                ("command", Role::File(GDB)),
                ("init-command", Role::File(GDB)),
                ("args", Role::Line),
            ],
            stdin: Some(GDB),
            stops: false,
            single: true,
            ..Grammar::NONE
        },
        "psql" | "mysql" | "mariadb" | "usql" | "pgcli" => PSQL,
        "sqlite3" | "sqlite" | "sqlcipher" => SQLITE,
        "duckdb" => DUCKDB,
        "pwsh" | "powershell" => PWSH,
        "java" => JAVA,
        "cmd" => options(&[], &[]),
        _ => return wrappers::grammar(name),
    })
}

const VIMS: Grammar = Grammar {
    short: &[
        ("c", Role::Text(VIM)),
        ("SuU", Role::File(VIM)),
        ("tqwWTiro", Role::Value),
        ("e", Role::Stdin(VIM)),
    ],
    long: &[("cmd", Role::Text(VIM)), ("startuptime", Role::Value)],
    stops: false,
    ..Grammar::NONE
};
