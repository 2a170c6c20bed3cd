//! Chooses the archives for a release: the host's own mirrors if it has any for that distribution, else the
//! distribution's default ones. Third-party archives, and options that weaken apt's checks, are dropped.
//! Pure.

use super::control::paragraphs;

/// A distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Debian.
    Debian,
    /// Ubuntu.
    Ubuntu,
}

impl Family {
    /// Releases that are known without asking the host.
    const fn releases(self) -> &'static [&'static str] {
        match self {
            Self::Debian => &["bullseye", "bookworm", "trixie", "forky", "sid"],
            Self::Ubuntu => &["focal", "jammy", "noble", "plucky", "questing"],
        }
    }

    /// The keyring that verifies its archives, and the package that provides it.
    #[must_use]
    pub const fn keyring(self) -> (&'static str, &'static str) {
        match self {
            Self::Debian => ("/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"),
            Self::Ubuntu => ("/usr/share/keyrings/ubuntu-archive-keyring.gpg", "ubuntu-keyring"),
        }
    }

    fn archives(self, suite: &str, architecture: &str) -> Vec<Entry> {
        let entry = |uri: &str, suites: &[&str], components: &str| Entry {
            uris: vec![uri.to_owned()],
            suites: suites.iter().map(|end| format!("{suite}{end}")).collect(),
            components: components.split(' ').map(str::to_owned).collect(),
            signed_by: None,
        };
        let pc = matches!(architecture, "amd64" | "i386");
        match self {
            Self::Debian if suite == "sid" => vec![entry("http://deb.debian.org/debian", &[""], "main")],
            Self::Debian => vec![
                entry("http://deb.debian.org/debian", &["", "-updates"], "main"),
                entry("http://deb.debian.org/debian-security", &["-security"], "main"),
            ],
            Self::Ubuntu if pc => vec![
                entry("http://archive.ubuntu.com/ubuntu", &["", "-updates"], "main universe"),
                entry("http://security.ubuntu.com/ubuntu", &["-security"], "main universe"),
            ],
            Self::Ubuntu => {
                vec![entry(
                    "http://ports.ubuntu.com/ubuntu-ports",
                    &["", "-updates", "-security"],
                    "main universe",
                )]
            }
        }
    }
}

/// Distribution and release of a host that is Debian, Ubuntu or derived from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The distribution whose archives it uses.
    pub family: Family,
    /// The release's code name.
    pub codename: String,
}

impl Host {
    /// Parses the text of `/etc/os-release`.
    #[must_use]
    pub fn of_os_release(text: &str) -> Option<Self> {
        let get = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='))?;
            Some(line.trim_matches(['"', '\'']).to_owned()).filter(|value| !value.is_empty())
        };
        if let Some(codename) = get("UBUNTU_CODENAME") {
            return Some(Self { family: Family::Ubuntu, codename });
        }
        let family = match get("ID")?.as_str() {
            "debian" => Family::Debian,
            "ubuntu" => Family::Ubuntu,
            _ => return get("DEBIAN_CODENAME").map(|codename| Self { family: Family::Debian, codename }),
        };
        Some(Self { family, codename: get("VERSION_CODENAME")? })
    }
}

/// A source of packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// Path of a keyring, or the keys themselves.
    signed_by: Option<String>,
}

fn split(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Parses a `sources.list` with one source per line; other lines are ignored.
#[must_use]
pub fn of_list(text: &str) -> Vec<Entry> {
    text.lines()
        .filter_map(|line| {
            let line = line.split('#').next()?.trim().strip_prefix("deb")?;
            let rest = line.strip_prefix([' ', '\t'])?.trim_start();
            let (options, rest) = match rest.strip_prefix('[') {
                Some(rest) => rest.split_once(']')?,
                None => ("", rest),
            };
            let signed_by = options.split_ascii_whitespace().find_map(|o| o.strip_prefix("signed-by="));
            let mut words = split(rest).into_iter();
            let (uri, suite) = (words.next()?, words.next()?);
            let signed_by = signed_by.map(str::to_owned);
            Some(Entry { uris: vec![uri], suites: vec![suite], components: words.collect(), signed_by })
        })
        .collect()
}

/// Parses a `.sources` file. Disabled and unknown entries are ignored.
#[must_use]
pub fn of_sources(text: &str) -> Vec<Entry> {
    let off = ["no", "false", "without", "off", "disable"];
    paragraphs(text)
        .unwrap_or_default()
        .iter()
        .filter(|p| p.words("Types").any(|t| t == "deb"))
        .filter(|p| !p.get("Enabled").is_some_and(|v| off.contains(&v)))
        .map(|p| Entry {
            uris: p.words("URIs").map(str::to_owned).collect(),
            suites: p.words("Suites").map(str::to_owned).collect(),
            components: p.words("Components").map(str::to_owned).collect(),
            signed_by: p.get("Signed-By").map(str::to_owned),
        })
        .collect()
}

/// Sources for a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// The distribution.
    pub family: Family,
    /// The release.
    pub suite: String,
    /// The text of a `.sources` file.
    pub text: String,
}

/// Chooses where the packages of `suite` come from. `None` means the host's own release, else Debian 12.
///
/// # Errors
/// A message when the release is not known.
pub fn choose(
    found: &[Entry],
    host: Option<&Host>,
    suite: Option<&str>,
    architecture: &str,
) -> Result<Sources, String> {
    let suite = suite.or(host.map(|h| h.codename.as_str())).unwrap_or("bookworm");
    let own = host.filter(|h| h.codename == suite).map(|h| h.family);
    let known = [Family::Debian, Family::Ubuntu].into_iter().find(|f| f.releases().contains(&suite));
    let family = own.or(known).ok_or_else(|| {
        let all = [Family::Debian.releases(), Family::Ubuntu.releases()].concat().join(", ");
        format!("{suite:?} is no release that hotcell knows: {all}")
    })?;
    let mut entries: Vec<Entry> = host
        .filter(|h| h.family == family)
        .map(|h| found.iter().filter_map(|entry| renamed(entry, h, suite)).collect())
        .unwrap_or_default();
    if entries.is_empty() {
        entries = family.archives(suite, architecture);
    }
    let text = entries.iter().map(|entry| written(entry, family)).collect::<Vec<_>>().join("\n");
    Ok(Sources { family, suite: suite.to_owned(), text })
}

/// Rewrites an entry for another release of the same distribution; `None` when it is not one of the
/// distribution's own.
fn renamed(entry: &Entry, host: &Host, suite: &str) -> Option<Entry> {
    let of_release = |name: &str| {
        let (base, end) = name.split_once('-').map_or((name, ""), |(base, _)| (base, &name[base.len()..]));
        let own = base == host.codename || (host.family == Family::Debian && base == "stable");
        (own && ["", "-updates", "-security"].contains(&end)).then(|| format!("{suite}{end}"))
    };
    let suites: Vec<String> = entry.suites.iter().filter_map(|name| of_release(name)).collect();
    let uris: Vec<String> =
        entry.uris.iter().filter(|uri| !uri.starts_with("cdrom:")).map(|uri| copied(uri)).collect();
    let good = !suites.is_empty() && !uris.is_empty() && entry.components.iter().any(|c| c == "main");
    good.then(|| Entry { uris, suites, ..entry.clone() })
}

/// Replaces `file:` by `copy:`. apt leaves files of `file:` in place, but copies those of `copy:` into our
/// folder like all others.
fn copied(uri: &str) -> String {
    uri.strip_prefix("file:").map_or_else(|| uri.to_owned(), |path| format!("copy:{path}"))
}

fn written(entry: &Entry, family: Family) -> String {
    let signed_by = entry.signed_by.as_deref().unwrap_or(family.keyring().0).replace('\n', "\n ");
    format!(
        "Types: deb\nURIs: {}\nSuites: {}\nComponents: {}\nSigned-By: {signed_by}\n",
        entry.uris.join(" "),
        entry.suites.join(" "),
        entry.components.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(family: Family, codename: &str) -> Host {
        Host { family, codename: codename.to_owned() }
    }

    #[test]
    fn hosts_by_their_own_word() {
        for (text, want) in [
            ("ID=debian\nVERSION_CODENAME=bookworm\n", Some(host(Family::Debian, "bookworm"))),
            (
                "ID=ubuntu\nVERSION_CODENAME=noble\nUBUNTU_CODENAME=noble\n",
                Some(host(Family::Ubuntu, "noble")),
            ),
            (
                "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_CODENAME=wilma\nUBUNTU_CODENAME=noble",
                Some(host(Family::Ubuntu, "noble")),
            ),
            (
                "ID=lmde\nVERSION_CODENAME=faye\nDEBIAN_CODENAME=\"bookworm\"",
                Some(host(Family::Debian, "bookworm")),
            ),
            ("ID=fedora\nVERSION_CODENAME=\"\"\n", None),
            ("ID=debian\n", None),
            ("", None),
        ] {
            assert_eq!(Host::of_os_release(text), want, "{text:?}");
        }
    }

    #[test]
    fn host_mirrors_exclude_third_parties() {
        let list = "# deb http://off/debian bookworm main\n\
            deb http://mirror/debian bookworm main contrib # mine\n\
            deb [arch=amd64 trusted=yes signed-by=/k.gpg] http://mirror/debian-security bookworm-security main\n\
            deb-src http://mirror/debian bookworm main\n\
            deb http://other/postgres bookworm-pgdg main\n\
            deb http://other/containers bookworm stable\n\
            deb cdrom:[Debian]/ bookworm main\n\
            deb http://other/flat ./\n";
        let here = host(Family::Debian, "bookworm");
        let sources = choose(&of_list(list), Some(&here), None, "amd64").unwrap();
        assert_eq!(
            sources.text,
            "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm\nComponents: main contrib\n\
             Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\
             Types: deb\nURIs: http://mirror/debian-security\nSuites: bookworm-security\nComponents: main\n\
             Signed-By: /k.gpg\n"
        );
        let text = "Types: deb deb-src\nURIs: file:/srv/debian\nSuites: stable stable-updates stable-backports\nComponents: main\n\
            Trusted: yes\nSigned-By:\n -----BEGIN\n .\n abc\n\n\
            Enabled: no\nTypes: deb\nURIs: http://off\nSuites: bookworm\nComponents: main\n";
        let sources = choose(&of_sources(text), Some(&here), Some("trixie"), "amd64").unwrap();
        assert_eq!(
            sources.text,
            "Types: deb\nURIs: copy:/srv/debian\nSuites: trixie trixie-updates\nComponents: main\n\
             Signed-By: \n -----BEGIN\n .\n abc\n"
        );
        // The output can be parsed again.
        assert_eq!(of_sources(&sources.text).len(), 1);
        assert_eq!(of_sources("no field"), []);
    }

    #[test]
    fn distribution_archives_replace_missing_mirrors() {
        let debian = host(Family::Debian, "bookworm");
        let ubuntu = host(Family::Ubuntu, "noble");
        let mirror = of_list("deb http://mirror/ubuntu noble main universe");
        for (found, host, suite, architecture, family, uri) in [
            (&[][..], None, None, "amd64", Family::Debian, "deb.debian.org"),
            (&[], Some(&debian), None, "amd64", Family::Debian, "deb.debian.org"),
            (&mirror, Some(&ubuntu), Some("bookworm"), "amd64", Family::Debian, "deb.debian.org"),
            (&mirror, Some(&ubuntu), Some("jammy"), "amd64", Family::Ubuntu, "//mirror/ubuntu"),
            (&[], Some(&debian), Some("noble"), "amd64", Family::Ubuntu, "archive.ubuntu.com"),
            (&[], Some(&debian), Some("noble"), "arm64", Family::Ubuntu, "ports.ubuntu.com"),
        ] {
            let sources = choose(found, host, suite, architecture).unwrap();
            assert_eq!(sources.family, family, "{suite:?}");
            assert!(sources.text.contains(uri), "{suite:?}: {}", sources.text);
            assert!(sources.text.contains(family.keyring().0));
        }
        assert!(choose(&[], Some(&debian), Some("wheezy"), "amd64").unwrap_err().contains("bookworm"));
        assert_eq!(choose(&[], Some(&host(Family::Debian, "duke")), None, "amd64").unwrap().suite, "duke");
    }
}
