//! SQL: destructive statements, read in every dialect; one dangerous reading is enough.

mod client;

use crate::report::PartState;
use crate::value::HOLE;
use sqlparser::dialect::{
    BigQueryDialect, Dialect, DuckDbDialect, GenericDialect, HiveDialect, MsSqlDialect, MySqlDialect,
    PostgreSqlDialect, SQLiteDialect,
};
use sqlparser::tokenizer::{Token, Tokenizer};

use crate::context::Cx;
use crate::language::Language;

/// Reads a script.
pub(crate) fn read(cx: &mut Cx<'_>, source: &str) -> PartState {
    if source.len() > cx.limits.parse_bytes {
        cx.not_read("source too large to parse");
        return PartState::Skipped("source too large to parse".to_owned());
    }
    // Code in comments that a server executes, and white space unknown to a dialect.
    let plain = source.replace(HOLE, "hole");
    let opened = opened(&plain);
    let dialects: [&dyn Dialect; 8] = [
        &GenericDialect,
        &PostgreSqlDialect {},
        &MySqlDialect {},
        &SQLiteDialect {},
        &MsSqlDialect {},
        &BigQueryDialect,
        &DuckDbDialect {},
        &HiveDialect {},
    ];
    let mut read = false;
    let mut seen: Vec<Vec<Word>> = Vec::new();
    for dialect in dialects {
        if let Some(words) = words(dialect, &opened).filter(|words| !seen.contains(words)) {
            read = true;
            statements(cx, &words);
            seen.push(words);
        }
    }
    client_commands(cx, source);
    if read {
        return PartState::Parsed;
    }
    // No dialect reads it: take the bare words.
    let loose: Vec<Word> = opened
        .split_inclusive(|c: char| !c.is_alphanumeric() && c != '_')
        .flat_map(|piece| {
            let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
            let rest = &piece[word.len()..];
            [Word::plain(word), Word::mark(rest.trim())]
        })
        .filter(|w| !w.text.is_empty())
        .collect();
    statements(cx, &loose);
    cx.fact(Language::Sql, "parse.partial", (0, 0));
    PartState::Recovered
}

/// Opens MySQL's `/*!50000 … */` comments, whose contents are executed.
fn opened(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("/*!") {
        out.push_str(&rest[..at]);
        let inner = rest[at + 3..].trim_start_matches(|c: char| c.is_ascii_digit());
        let end = inner.find("*/").unwrap_or(inner.len());
        out.push_str(&inner[..end]);
        rest = inner.get(end + 2..).unwrap_or("");
    }
    out.push_str(rest);
    out
}

/// A word, a literal or a sign.
#[derive(Clone, Debug)]
struct Word {
    /// Text; words are in upper case.
    text: String,
    literal: bool,
    /// Start of its line.
    at: usize,
}

impl PartialEq for Word {
    fn eq(&self, other: &Word) -> bool {
        self.text == other.text && self.literal == other.literal
    }
}

impl Word {
    fn plain(text: &str) -> Word {
        Word { text: text.to_ascii_uppercase(), literal: false, at: 0 }
    }
    fn mark(text: &str) -> Word {
        Word { text: text.to_owned(), literal: false, at: 0 }
    }
    fn literal(text: &str) -> Word {
        Word { text: text.to_owned(), literal: true, at: 0 }
    }
    fn place(&self) -> (usize, usize) {
        (self.at, self.at + 1)
    }
    fn is(&self, text: &str) -> bool {
        !self.literal && self.text == text
    }
}

fn words(dialect: &dyn Dialect, source: &str) -> Option<Vec<Word>> {
    let tokens = Tokenizer::new(dialect, source).tokenize_with_location().ok()?;
    let lines: Vec<usize> =
        std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let words = tokens.into_iter().filter_map(|token| {
        let line = usize::try_from(token.span.start.line).unwrap_or(1).max(1);
        let at = lines.get(line - 1).copied().unwrap_or(0);
        word(token.token).map(|word| Word { at, ..word })
    });
    Some(words.collect())
}

fn word(token: Token) -> Option<Word> {
    match token {
        Token::Whitespace(_) => None,
        Token::Word(word) if word.quote_style.is_none() => Some(Word::plain(&word.value)),
        Token::Word(word) => Some(Word::literal(&word.value)),
        Token::SingleQuotedString(text)
        | Token::DoubleQuotedString(text)
        | Token::NationalStringLiteral(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text) => Some(Word::literal(&text)),
        Token::DollarQuotedString(text) => Some(Word::literal(&text.value)),
        other => Some(Word::mark(&other.to_string())),
    }
}

/// Tables that a script creates: dropping one of them first only recreates it.
fn made(words: &[Word]) -> Vec<&str> {
    let skipped = ["TABLE", "IF", "NOT", "EXISTS", "TEMPORARY", "TEMP", "UNLOGGED", "."];
    words
        .iter()
        .enumerate()
        .filter(|(_, w)| w.is("CREATE"))
        .filter_map(|(at, _)| {
            let rest = words.get(at + 1..at + 8)?;
            let table = rest.iter().take(3).any(|w| w.is("TABLE"));
            rest.iter().find(|w| !skipped.iter().any(|s| w.is(s))).filter(|_| table).map(|w| w.text.as_str())
        })
        .collect()
}

/// True when the same script creates all tables of a `DROP TABLE`.
fn remakes(rest: &[Word], made: &[&str]) -> bool {
    let mut names = rest
        .iter()
        .filter(|w| {
            !["TABLE", "IF", "EXISTS", ",", "CASCADE", "RESTRICT", "CONSTRAINTS"].iter().any(|s| w.is(s))
        })
        .peekable();
    rest.first().is_some_and(|w| w.is("TABLE"))
        && names.peek().is_some()
        && names.all(|name| made.iter().any(|m| m.eq_ignore_ascii_case(&name.text)))
}

fn statements(cx: &mut Cx<'_>, words: &[Word]) {
    let made = made(words);
    for statement in words.split(|w| w.is(";") || w.is("//") || w.is("GO")) {
        if !cx.tick() {
            return;
        }
        for (at, word) in statement.iter().enumerate().filter(|(_, w)| !w.literal) {
            let rest = &statement[at + 1..];
            if word.is("DROP") && at == 0 && remakes(rest, &made) {
                continue;
            }
            if word.is("LANGUAGE")
                && rest.first().is_some_and(|w| w.text.eq_ignore_ascii_case("c"))
                && !loads_library(statement)
            {
                continue;
            }
            if let Some(fact) = dangerous(word, rest, at == 0 || begins(&statement[at - 1])) {
                cx.fact(Language::Sql, fact, word.place());
            }
        }
        sends(cx, statement);
        dynamic(cx, statement);
        piped(cx, statement);
        edits(cx, statement);
    }
}

/// True when a statement may begin after this word: in a body, a common table expression, a branch.
fn begins(before: &Word) -> bool {
    !before.literal
        && matches!(
            before.text.as_str(),
            "(" | "BEGIN" | "AS" | "THEN" | "ELSE" | "DO" | "EXPLAIN" | "ANALYZE" | "LOOP" | ")"
        )
}

/// Danger of a word together with the following ones.
fn dangerous(word: &Word, rest: &[Word], first: bool) -> Option<&'static str> {
    let next = rest.first().map_or("", |w| if w.literal { "" } else { w.text.as_str() });
    match word.text.as_str() {
        "DELETE" if first && !matches!(next, "" | ")" | ",") => unbounded(rest).then_some("sql.delete_all"),
        "UPDATE" if first && rest.iter().any(|w| w.is("SET")) => unbounded(rest).then_some("sql.update_all"),
        "DELETE" if rest.is_empty() || next.is_empty() => None,
        "TRUNCATE" if first && !matches!(next, "(" | "," | ")" | "") => Some("sql.truncate"),
        "TRUNCATE" if first && rest.first().is_some_and(|w| w.literal) => Some("sql.truncate"),
        "DROP" if first => match next {
            "SCHEMA" | "DATABASE" | "TABLE" | "TABLESPACE" | "USER" | "ROLE" => Some("sql.drop"),
            _ => None,
        },
        "ALTER" if first && rest.iter().any(|w| w.is("DROP")) => Some("sql.alter_drop"),
        "MERGE" if first && rest.windows(2).any(|w| w[0].is("THEN") && w[1].is("DELETE")) => {
            Some("sql.merge_delete")
        }
        "INSERT" if first && next == "OVERWRITE" => Some("sql.overwrite"),
        "COPY" if first && rest.iter().any(|w| w.is("PROGRAM")) => Some("sql.program"),
        "INTO" if matches!(next, "OUTFILE" | "DUMPFILE") => Some("sql.file"),
        "LOAD_FILE" | "LO_EXPORT" | "LO_IMPORT" | "PG_READ_FILE" | "UTL_FILE" | "OPENROWSET" => {
            Some("sql.file")
        }
        // Functions of sqlite's client and of PostgreSQL.
        "WRITEFILE" | "READFILE" | "PG_READ_BINARY_FILE" | "PG_LS_DIR" if next == "(" => Some("sql.file"),
        "BULK" if first && next == "INSERT" => Some("sql.file"),
        "VACUUM" if first && rest.iter().any(|w| w.is("INTO")) && !into_relative(rest) => Some("sql.file"),
        // Extensions of DuckDB that anybody writes, or that stand anywhere.
        "INSTALL" if first && from_elsewhere(rest) => Some("sql.program"),
        // A function in a language that is not confined, and settings that name programs and libraries.
        "LANGUAGE" if rest.first().is_some_and(|w| is_unconfined(&w.text)) => Some("sql.program"),
        "SONAME" if rest.first().is_some_and(|w| w.literal) => Some("sql.program"),
        "SYSTEM" if first_of(rest, "SET") && rest.iter().take(4).any(|w| names_program(&w.text)) => {
            Some("sql.program")
        }
        "SP_CONFIGURE" if rest.iter().take(2).any(|w| w.literal && switches_on_programs(&w.text)) => {
            Some("sql.program")
        }
        "GENERAL_LOG_FILE" | "SLOW_QUERY_LOG_FILE" if next == "=" || next == ":=" => Some("sql.file"),
        // Roles of PostgreSQL that reach the host, given to another one.
        "PG_EXECUTE_SERVER_PROGRAM" | "PG_WRITE_SERVER_FILES" | "PG_READ_SERVER_FILES"
            if rest.iter().any(|w| w.is("TO")) =>
        {
            Some("sql.grant")
        }
        "PG_SHADOW" | "PG_AUTHID" => Some("sql.credentials"),
        "XP_CMDSHELL" | "SP_OACREATE" | "SYS_EXEC" | "SYS_EVAL" | "DBMS_SCHEDULER" => Some("sql.program"),
        "LOAD_EXTENSION" => Some("sql.program"),
        "ATTACH" if first => Some("sql.attach"),
        "GRANT" if first && next == "ALL" || word.text == "SUPERUSER" => Some("sql.grant"),
        "SUPERUSER" => Some("sql.grant"),
        _ => None,
    }
}

/// True for languages of functions that reach the host.
fn is_unconfined(language: &str) -> bool {
    let language = language.trim_matches(['\'', '"']).to_ascii_lowercase();
    matches!(
        &*language,
        "plpythonu" | "plpython2u" | "plpython3u" | "plperlu" | "pltclu" | "plsh" | "plrubyu" | "c"
    )
}

/// True for a statement that makes a function of a native library, other than those of an extension that is being built or of the server.
fn loads_library(statement: &[Word]) -> bool {
    let makes = statement.iter().any(|w| w.is("FUNCTION") || w.is("PROCEDURE") || w.is("AGGREGATE"));
    let mut libraries = statement.windows(2).filter(|two| two[0].is("AS") && two[1].literal).peekable();
    let is_own = |two: &[Word]| {
        let library = two[1].text.trim_matches('\'');
        library == "MODULE_PATHNAME" || library.starts_with("$libdir/") && !library.contains("..")
    };
    makes && (libraries.peek().is_none() || libraries.any(|two| !is_own(two)))
}

/// True when a copy of the database goes to a file in the working folder.
fn into_relative(rest: &[Word]) -> bool {
    rest.windows(2).any(|two| {
        let path = two[1].text.trim_matches('\'');
        two[0].is("INTO")
            && two[1].literal
            && !path.starts_with(['/', '\\', '~'])
            && ![":", "..", "hole"].iter().any(|part| path.contains(part))
    })
}

/// True for an extension of DuckDB that is not one of its own.
fn from_elsewhere(rest: &[Word]) -> bool {
    let at = rest.iter().take(3).position(|w| w.is("FROM"));
    at.is_some_and(|at| {
        rest.get(at + 1).is_none_or(|w| !w.text.trim_matches('\'').eq_ignore_ascii_case("core"))
    })
}

fn first_of(rest: &[Word], text: &str) -> bool {
    rest.first().is_some_and(|word| word.is(text))
}

/// True for settings of a server whose value is a command line or a library.
fn names_program(setting: &str) -> bool {
    [
        "archive_command",
        "restore_command",
        "archive_cleanup_command",
        "recovery_end_command",
        "ssl_passphrase_command",
        "shared_preload_libraries",
        "session_preload_libraries",
        "local_preload_libraries",
        "dynamic_library_path",
    ]
    .iter()
    .any(|name| setting.eq_ignore_ascii_case(name))
}

fn switches_on_programs(option: &str) -> bool {
    ["xp_cmdshell", "ole automation procedures", "external scripts enabled"]
        .iter()
        .any(|name| option.eq_ignore_ascii_case(name))
}

/// True when the rows are not limited, or only by a condition that is always true.
fn unbounded(rest: &[Word]) -> bool {
    let Some(at) = rest.iter().position(|w| w.is("WHERE")) else {
        // Joined tables and a limit restrict the rows in their own way.
        return !rest.iter().any(|w| w.is("LIMIT") || w.is("USING"));
    };
    let condition: Vec<&Word> =
        rest[at + 1..].iter().take_while(|w| !w.is("RETURNING") && !w.is("ORDER")).collect();
    always(&condition)
}

/// True when a condition holds for every row.
fn always(condition: &[&Word]) -> bool {
    let condition: Vec<&Word> = condition.iter().copied().filter(|w| !w.is("(") && !w.is(")")).collect();
    // Of alternatives, one that is always true is enough; of combined conditions, all have to be.
    condition.split(|w| w.is("OR")).any(|branch| {
        branch.split(|w| w.is("AND")).all(|test| match test {
            [one] => one.is("TRUE") || number(one).is_some_and(|n| n != 0),
            [not, one] if not.is("NOT") => one.is("FALSE") || number(one) == Some(0),
            [left, equals, right] if equals.is("=") || equals.is("LIKE") || equals.is("<=>") => {
                left == right || equals.is("LIKE") && right.text == "%"
            }
            [left, differs, right] if differs.is("<>") || differs.is("!=") => {
                constant(left) && constant(right) && left != right
            }
            [left, greater, right] if greater.is(">") => {
                number(left).zip(number(right)).is_some_and(|(a, b)| a > b)
            }
            [exists, select, one] if exists.is("EXISTS") && select.is("SELECT") => constant(one),
            [] => true,
            _ => false,
        })
    })
}

fn number(word: &Word) -> Option<i64> {
    word.text.parse().ok()
}

fn constant(word: &Word) -> bool {
    word.literal || number(word).is_some()
}

/// Command lines that DuckDB's `shellfs` executes in place of a file: `'command |'`.
fn piped(cx: &mut Cx<'_>, statement: &[Word]) {
    let files = statement.iter().filter(|w| w.literal);
    for (word, text) in files.filter_map(|w| w.text.trim_end().strip_suffix('|').map(|text| (w, text))) {
        cx.child(Language::Bash, text, word.place(), &["shell"]);
    }
}

/// Executed texts: `EXECUTE '…'`, `sp_executesql N'…'`, `SELECT '…' \gexec` of psql, dollar-quoted bodies.
fn dynamic(cx: &mut Cx<'_>, statement: &[Word]) {
    let Some(first) = statement.first() else { return };
    let executes = statement
        .iter()
        .any(|w| ["EXECUTE", "SP_EXECUTESQL", "EXEC", "PREPARE", "GEXEC"].iter().any(|k| w.is(k)));
    let body = first.is("DO")
        || first.is("CREATE") && statement.iter().any(|w| w.is("FUNCTION") || w.is("PROCEDURE"));
    if !executes && !body {
        return;
    }
    let literals: Vec<&str> = statement.iter().filter(|w| w.literal).map(|w| w.text.as_str()).collect();
    let python = statement
        .windows(2)
        .any(|w| w[0].is("LANGUAGE") && w[1].text.to_ascii_lowercase().starts_with("plpython"));
    for text in literals.iter().filter(|t| t.contains(' ') || python && t.len() > 16) {
        if python {
            cx.child(Language::Python, text, first.place(), &["sql"]);
            continue;
        }
        cx.child(Language::Sql, text, first.place(), &["sql"]);
    }
    let joined = statement.iter().any(|w| ["CONCAT", "||", "CHAR", "CHR", "FORMAT", "+"].iter().any(|k| w.is(k)))
            // Also `||` with a comment behind it, which one dialect reads as a single operator.
            || statement.iter().any(|w| w.text.starts_with("||"));
    if executes && joined {
        cx.child(Language::Sql, &literals.concat(), first.place(), &["sql"]);
        cx.fact(Language::Sql, "sql.dynamic", first.place());
    }
    if executes && statement.iter().any(|w| w.text.starts_with("0x") && w.text.len() > 8) {
        cx.fact(Language::Sql, "sql.dynamic", first.place());
    }
}

/// Columns of passwords that a statement hands to a function that reaches another machine: `http_post(u, NEW.password)`.
fn sends(cx: &mut Cx<'_>, statement: &[Word]) {
    for (at, word) in statement.iter().enumerate().filter(|(_, word)| !word.literal && reaches(&word.text)) {
        let inner = within_brackets(&statement[at + 1..]);
        let is_column = |two: &[Word]| two[0].is(".") && !two[1].literal && holds_password(&two[1].text);
        if inner.windows(2).any(is_column) {
            cx.fact(Language::Sql, "sql.sends", word.place());
        }
    }
}

/// True for a function of a database that reaches another machine.
fn reaches(name: &str) -> bool {
    matches!(
        name,
        "DBLINK"
            | "DBLINK_EXEC"
            | "DBLINK_OPEN"
            | "DBLINK_SEND_QUERY"
            | "HTTP"
            | "HTTP_GET"
            | "HTTP_POST"
            | "HTTP_PUT"
            | "UTL_HTTP"
            | "SP_INVOKE_EXTERNAL_REST_ENDPOINT"
            | "XP_DIRTREE"
            | "XP_FILEEXIST"
    )
}

/// True for the name of a column that holds a password or a number of a card.
fn holds_password(column: &str) -> bool {
    ["PASSWORD", "PASSWD", "PASS_HASH", "PASSHASH", "PASSPHRASE", "PWD", "CARD_NUMBER", "CVV", "PRIVATE_KEY"]
        .iter()
        .any(|part| column.contains(part))
}

/// Words in the first pair of brackets, or up to the end of the statement for a procedure without them.
fn within_brackets(rest: &[Word]) -> &[Word] {
    let Some(open) = rest.iter().take(3).position(|word| word.is("(")) else { return rest };
    let mut depth = 0_usize;
    let end = rest[open..].iter().position(|word| {
        depth = if word.is("(") { depth + 1 } else { depth.saturating_sub(usize::from(word.is(")"))) };
        depth == 0
    });
    &rest[open..end.map_or(rest.len(), |end| open + end)]
}

/// Programs of `edit(VALUE, PROGRAM)`, with which sqlite has a text changed.
fn edits(cx: &mut Cx<'_>, statement: &[Word]) {
    for (at, word) in statement.iter().enumerate() {
        if !word.is("EDIT") || !statement.get(at + 1).is_some_and(|next| next.is("(")) {
            continue;
        }
        let mut depth = 0_usize;
        let inner = statement[at + 1..].iter().take_while(|word| {
            depth = if word.is("(") { depth + 1 } else { depth.saturating_sub(usize::from(word.is(")"))) };
            depth > 0
        });
        // A comma of another call in the first argument only makes more of the text count.
        let program: Vec<&Word> = inner.skip_while(|word| !word.is(",")).skip(1).collect();
        if program.is_empty() {
            continue;
        }
        cx.fact(Language::Sql, "sql.shell", word.place());
        let text: String =
            program.iter().filter(|word| word.literal).map(|word| word.text.as_str()).collect();
        cx.child(Language::Bash, &text, word.place(), &["shell"]);
    }
}

/// Commands of database clients that start a shell or load native code: `.shell`, `\!`.
fn client_commands(cx: &mut Cx<'_>, source: &str) {
    for client::Command { place, kind, text } in client::commands(source) {
        match kind {
            client::Kind::Shell => cx.fact(Language::Sql, "sql.shell", place),
            client::Kind::Pager => {}
            client::Kind::Load => {
                cx.fact(Language::Sql, "sql.program", place);
                continue;
            }
        }
        cx.child(Language::Bash, &text, place, &["shell"]);
    }
}
