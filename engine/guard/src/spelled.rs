//! Names that have no legitimate reason to be assembled from pieces.
//!
//! `"sys" + "tem"` is `system` to an interpreter, but a text search does not find it. The analysers of each
//! language know which texts are assembled; this module knows which words matter.

use regex::Regex;
use std::sync::LazyLock;

/// Functions and modules that reach the system, places that hold secrets or start programs, and destructive
/// tools: words that are whole identifiers or path components, not ordinary language.
const WORDS: &str = concat!(
    r"\b(?:",
    r"system|popen|Popen|exec|execv|execve|execvp|eval|subprocess|check_output|__import__|importlib",
    r"|builtins|__builtins__|fork|posix_spawn|memfd_create|ptrace|syscall|init_module|finit_module|CDLL",
    r"|ctypes|windll|unlink|rmtree|truncate|urlopen|urlretrieve|b64decode|marshal|getattr|globals",
    r"|__globals__|setuid|setcap|cap_setuid|docker\.sock|Privileged|privileged|core_pattern|release_agent",
    r"|usercustomize|sitecustomize|authorized_keys|credentials|wallet|leveldb|Login Data|passwd|shadow",
    r"|sudoers|crontab|bashrc|LD_PRELOAD|terraform|kubectl|destroy|delete|drop_database|dropDatabase",
    r"|VirtualAlloc|CreateRemoteThread|WriteProcessMemory|keydown|keyboard|clipboard|cookie|getpass",
    r"|child_process|execSync|spawn|spawnSync|execFile|rmSync|rmdirSync|unlinkSync|writeFileSync",
    r"|readFileSync|homedir|rimraf|Function|constructor|powershell|PowerShell|cmd\.exe|netcat|mkfifo",
    r"|nsenter|chroot|insmod|xmrig|stratum|minerd|monero|webhook|webhooks|keylogger|mimikatz|shellcode",
    r"|reverse_shell|vssadmin|schtasks|reg\.exe|wget|curl|bash|dup2|setns|pickle",
    r")\b"
);

static ANY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(WORDS).ok());

/// First of [`WORDS`] that `text` consists of or contains as a component, unless it occurs in `source`.
pub(crate) fn hidden_word<'t>(text: &'t str, source: &str) -> Option<&'t str> {
    if !(4..=200).contains(&text.len()) {
        return None;
    }
    ANY.as_ref()?.find_iter(text).map(|found| found.as_str()).find(|word| !source.contains(word))
}

#[cfg(test)]
mod tests {
    use super::hidden_word;

    #[test]
    fn hidden_words_are_complete_and_not_visible() {
        for (text, source, found) in [
            ("system", "'sys' + 'tem'", Some("system")),
            ("os.popen", "'os.po' + 'pen'", Some("popen")),
            ("/run/docker.sock", "'docker' + '.sock'", Some("docker.sock")),
            ("system", "x = 'system'", None),
            ("systemd-resolved", "'system' + 'd-resolved'", None),
            ("ecosystem", "'eco' + 'sys' + 'tem'", None),
            ("abc", "'a' + 'bc'", None),
        ] {
            assert_eq!(hidden_word(text, source), found, "{text}");
        }
    }
}
