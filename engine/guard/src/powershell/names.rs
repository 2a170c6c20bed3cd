//! Names of commands, types and variables of PowerShell.

/// Command that an alias or a spelling stands for, in lower case: without backticks, quotes, its module and
/// `.exe`.
pub(super) fn command(written: &str) -> String {
    let plain: String = written.chars().filter(|c| !matches!(c, '`' | '"' | '\'' | '^')).collect();
    let plain = plain.trim().to_ascii_lowercase();
    let base = plain.rsplit(['\\', '/']).next().unwrap_or(&plain);
    let base = base.strip_suffix(".exe").unwrap_or(base);
    match base {
        "iex" => "invoke-expression",
        "icm" => "invoke-command",
        "iwr" | "curl" | "wget" => "invoke-webrequest",
        "irm" => "invoke-restmethod",
        "ii" => "invoke-item",
        "gc" | "cat" | "type" => "get-content",
        "gci" | "dir" | "ls" => "get-childitem",
        "gi" => "get-item",
        "gcm" => "get-command",
        "gal" => "get-alias",
        "gv" => "get-variable",
        "sv" | "set" => "set-variable",
        "nv" => "new-variable",
        "sal" => "set-alias",
        "nal" => "new-alias",
        "saps" | "start" => "start-process",
        "sajb" => "start-job",
        "sc" => "set-content",
        "ac" => "add-content",
        "rm" | "del" | "ri" | "rd" | "erase" | "rmdir" => "remove-item",
        "cp" | "cpi" | "copy" => "copy-item",
        "mv" | "mi" | "move" => "move-item",
        "ipmo" => "import-module",
        "sp" => "set-itemproperty",
        "ni" => "new-item",
        "gp" => "get-itemproperty",
        "ps" | "gps" => "get-process",
        "kill" | "spps" => "stop-process",
        "%" | "foreach" => "foreach-object",
        "?" | "where" => "where-object",
        "sleep" => "start-sleep",
        "echo" | "write" => "write-output",
        "gwmi" => "get-wmiobject",
        "iwmi" => "invoke-wmimethod",
        "pwsh" => "powershell",
        "new-objec" => "new-object",
        other => return other.to_owned(),
    }
    .to_owned()
}

/// Type name in lower case, without brackets and the name space that may be left out: `[System.Convert]`.
pub(super) fn type_name(written: &str) -> String {
    let plain: String = written.chars().filter(|c| !matches!(c, '[' | ']' | '`' | ' ')).collect();
    let plain = plain.to_ascii_lowercase();
    plain.strip_prefix("system.").unwrap_or(&plain).to_owned()
}

/// Name of a variable, in lower case, without its mark and its scope: `$Global:x`, `${x}`.
pub(super) fn variable(written: &str) -> String {
    let plain: String = written
        .chars()
        .filter(|c| !matches!(c, '$' | '@' | '{' | '}' | '`'))
        .collect::<String>()
        .to_ascii_lowercase();
    match plain.split_once(':') {
        Some(("global" | "script" | "local" | "private" | "variable", rest)) => rest.to_owned(),
        _ => plain,
    }
}

/// Text of a variable that every shell has, whose letters spell other names: `$pshome[21]+$pshome[34]+'x'`.
pub(super) fn automatic(name: &str) -> Option<&'static str> {
    Some(match name {
        "pshome" => r"C:\Windows\System32\WindowsPowerShell\v1.0",
        "profile" => r"~\Documents\PowerShell\Microsoft.PowerShell_profile.ps1",
        "shellid" => "Microsoft.PowerShell",
        "env:comspec" => r"C:\WINDOWS\system32\cmd.exe",
        "env:public" => r"C:\Users\Public",
        "verbosepreference" | "debugpreference" | "informationpreference" => "SilentlyContinue",
        "ofs" => " ",
        "null" => "",
        _ => return None,
    })
}

/// True for variables that lead to a folder for temporary or per-user files.
pub(super) fn is_dropping_place(name: &str) -> bool {
    matches!(
        name,
        "env:temp" | "env:tmp" | "env:appdata" | "env:localappdata" | "env:public" | "env:programdata"
    )
}

/// Full name of a parameter that may be shortened: `-e` for `-EncodedCommand`.
pub(super) fn parameter<'n>(written: &str, known: &[&'n str]) -> Option<&'n str> {
    let plain: String = written.chars().filter(|c| !matches!(c, '`' | '^' | '"' | '\'')).collect();
    let plain =
        plain.trim_start_matches(['-', '/', '\u{2013}', '\u{2014}', '\u{2015}']).trim_end_matches(':');
    let plain = plain.to_ascii_lowercase();
    if plain.is_empty() {
        return None;
    }
    known.iter().find(|name| name.starts_with(plain.as_str())).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_become_names() {
        for (written, name) in [
            ("IEX", "invoke-expression"),
            ("i`E`x", "invoke-expression"),
            ("Microsoft.PowerShell.Utility\\Invoke-Expression", "invoke-expression"),
            (r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe", "powershell"),
            ("'irm'", "invoke-restmethod"),
            ("gci", "get-childitem"),
            ("Get-Date", "get-date"),
        ] {
            assert_eq!(command(written), name, "{written}");
        }
        assert_eq!(type_name("[System.Convert]"), "convert");
        assert_eq!(type_name("[char[]]"), "char");
        assert_eq!(variable("$Global:Foo"), "foo");
        assert_eq!(variable("${b`ar}"), "bar");
        assert_eq!(variable("$env:TEMP"), "env:temp");
        for (written, name) in [
            ("-e", Some("encodedcommand")),
            ("-EnC", Some("encodedcommand")),
            ("/enco", Some("encodedcommand")),
            ("-w", Some("windowstyle")),
            ("-c", Some("command")),
            ("-x", None),
        ] {
            assert_eq!(parameter(written, &["encodedcommand", "command", "windowstyle"]), name, "{written}");
        }
    }
}
