//! The table of paths that never become a rule, each with its reason. Pure: a path is refused by its name, before anybody
//! looks whether it exists.

use std::path::{Path, PathBuf};

/// Paths below a home folder.
const AT_HOME: &[(&str, &str)] = &[
    (".ssh", "SSH keys"),
    (".gnupg", "GnuPG keys"),
    (".aws", "credentials of a cloud"),
    (".azure", "credentials of a cloud"),
    (".boto", "credentials of a cloud"),
    (".s3cfg", "credentials of a cloud"),
    (".config/gcloud", "credentials of a cloud"),
    (".config/rclone", "credentials of a cloud"),
    (".oci", "credentials of a cloud"),
    (".kube", "credentials of a cluster"),
    (".docker", "credentials of registries"),
    (".config/containers", "credentials of registries"),
    (".netrc", "passwords"),
    (".npmrc", "may hold a token"),
    (".yarnrc.yml", "may hold a token"),
    (".pypirc", "may hold a token"),
    (".config/pip", "may hold a token"),
    (".git-credentials", "passwords"),
    (".config/git/credentials", "passwords"),
    (".config/gh", "a token"),
    (".config/hub", "a token"),
    (".config/glab-cli", "a token"),
    (".cargo/credentials", "a token"),
    (".cargo/credentials.toml", "a token"),
    (".gem/credentials", "a token"),
    (".m2", "may hold passwords"),
    (".gradle/gradle.properties", "may hold passwords"),
    (".composer/auth.json", "a token"),
    (".terraform.d", "a token"),
    (".vault-token", "a token"),
    (".password-store", "passwords"),
    (".local/share/keyrings", "passwords"),
    (".local/share/kwalletd", "passwords"),
    (".config/op", "passwords"),
    (".config/Bitwarden", "passwords"),
    (".pgpass", "passwords"),
    (".my.cnf", "passwords"),
    (".mozilla", "a browser's profile"),
    (".config/google-chrome", "a browser's profile"),
    (".config/chromium", "a browser's profile"),
    (".thunderbird", "mail"),
    (".bash_history", "a history of commands"),
    (".zsh_history", "a history of commands"),
    (".claude", "credentials of an agent"),
    (".codex", "credentials of an agent"),
    (".gemini", "credentials of an agent"),
    (".claude.json", "credentials of an agent"),
    (".config/claude", "credentials of an agent"),
    (".config/Claude", "credentials of an agent"),
    (".config/github-copilot", "credentials of an agent"),
    (".copilot", "credentials of an agent"),
    (".local/share/opencode", "credentials of an agent"),
    (".config/goose", "credentials of an agent"),
    (".qwen", "credentials of an agent"),
    (".continue", "credentials of an agent"),
    (".cursor", "credentials of an agent"),
    (".config/Cursor", "an editor's tokens"),
    (".config/Code", "an editor's tokens"),
    (".config/VSCodium", "an editor's tokens"),
    (".config/zed", "may hold a token"),
    (".aider.conf.yml", "may hold a token"),
    (".config/openai", "a token"),
    (".huggingface", "a token"),
    (".cache/huggingface/token", "a token"),
    (".cache/huggingface/stored_tokens", "tokens"),
    (".kaggle", "a token"),
    (".config/kaggle", "a token"),
    (".config/wandb", "a token"),
    (".databrickscfg", "credentials of a cloud"),
    (".snowflake", "credentials of a cloud"),
    (".snowsql", "credentials of a cloud"),
    (".dbt", "may hold passwords"),
    (".config/doctl", "credentials of a cloud"),
    (".config/hcloud", "credentials of a cloud"),
    (".config/scw", "credentials of a cloud"),
    (".config/linode-cli", "credentials of a cloud"),
    (".config/ibmcloud", "credentials of a cloud"),
    (".bluemix", "credentials of a cloud"),
    (".aliyun", "credentials of a cloud"),
    (".fly", "a token"),
    (".netlify", "a token"),
    (".config/netlify", "a token"),
    (".config/vercel", "a token"),
    (".local/share/com.vercel.cli", "a token"),
    (".config/configstore", "tokens"),
    (".config/firebase", "a token"),
    (".wrangler", "a token"),
    (".config/.wrangler", "a token"),
    (".pulumi", "a token"),
    (".terraformrc", "a token"),
    (".tofurc", "a token"),
    (".config/helm", "credentials of registries"),
    (".config/argocd", "a token"),
    (".config/cosign", "keys"),
    (".sigstore", "keys"),
    (".minikube", "credentials of a cluster"),
    (".rancher", "credentials of a cluster"),
    (".config/sops", "keys"),
    (".config/age", "keys"),
    (".age", "keys"),
    (".pki", "keys"),
    (".step", "keys"),
    (".vagrant.d", "SSH keys"),
    (".vnc", "passwords"),
    (".config/remmina", "passwords"),
    (".local/share/remmina", "passwords"),
    (".config/filezilla", "passwords"),
    (".config/lftp", "passwords"),
    (".subversion", "passwords"),
    (".hgrc", "may hold passwords"),
    (".mylogin.cnf", "passwords"),
    (".dbeaver", "passwords"),
    (".local/share/DBeaverData", "passwords"),
    (".irssi", "passwords"),
    (".weechat", "passwords"),
    (".config/weechat", "passwords"),
    (".msmtprc", "passwords"),
    (".config/msmtp", "passwords"),
    (".mbsyncrc", "passwords"),
    (".fetchmailrc", "passwords"),
    (".offlineimaprc", "passwords"),
    (".config/neomutt", "passwords"),
    (".config/mutt", "passwords"),
    (".muttrc", "passwords"),
    (".mail", "mail"),
    ("Mail", "mail"),
    ("Maildir", "mail"),
    (".local/share/evolution", "mail"),
    (".config/keepassxc", "passwords"),
    (".config/1Password", "passwords"),
    (".config/Bitwarden CLI", "passwords"),
    (".lastpass", "passwords"),
    (".local/share/lpass", "passwords"),
    (".gem/credentials.yml", "a token"),
    (".bundle/config", "may hold a token"),
    (".config/composer", "a token"),
    (".nuget", "may hold a token"),
    (".sbt", "may hold passwords"),
    (".ivy2/.credentials", "passwords"),
    (".condarc", "may hold a token"),
    (".bunfig.toml", "may hold a token"),
    (".yarnrc", "may hold a token"),
    (".pnpmrc", "may hold a token"),
    (".config/pnpm", "may hold a token"),
    (".config/pypoetry", "a token"),
    (".config/uv", "may hold a token"),
    (".local/share/uv/credentials", "a token"),
    (".Xauthority", "access to your screen"),
    (".ICEauthority", "access to your session"),
    (".config/BraveSoftware", "a browser's profile"),
    (".config/microsoft-edge", "a browser's profile"),
    (".config/opera", "a browser's profile"),
    (".config/vivaldi", "a browser's profile"),
    (".librewolf", "a browser's profile"),
    (".zen", "a browser's profile"),
    (".cache/mozilla", "a browser's profile"),
    (".cache/google-chrome", "a browser's profile"),
    (".cache/chromium", "a browser's profile"),
    (".var/app", "profiles of applications"),
    ("snap", "profiles of applications"),
    (".config/Signal", "messages"),
    (".config/Slack", "messages"),
    (".config/discord", "messages"),
    (".config/Element", "messages"),
    (".local/share/TelegramDesktop", "messages"),
    (".purple", "passwords"),
    (".bitcoin", "a wallet"),
    (".ethereum", "a wallet"),
    (".electrum", "a wallet"),
    (".monero", "a wallet"),
    (".config/solana", "a wallet"),
    (".config/Exodus", "a wallet"),
];

/// Absolute paths; all below them, too.
const ABSOLUTE: &[(&str, &str)] = &[
    ("/proc", "the kernel's view of processes, others' among them"),
    ("/sys", "the kernel's view of this host"),
    ("/dev", "devices of this host"),
    ("/boot", "the kernel of this host"),
    ("/etc/shadow", "passwords"),
    ("/etc/gshadow", "passwords"),
    ("/etc/sudoers", "rights of users"),
    ("/etc/sudoers.d", "rights of users"),
    ("/etc/ssh", "keys of this host"),
    ("/etc/ssl/private", "keys of this host"),
    ("/etc/krb5.keytab", "keys of this host"),
    ("/etc/docker", "a container engine"),
    ("/etc/kubernetes", "credentials of a cluster"),
    ("/run", "sockets of services, container engines among them"),
    ("/var/run", "sockets of services, container engines among them"),
    ("/var/lib/docker", "a container engine"),
    ("/var/lib/containerd", "a container engine"),
    ("/var/lib/kubelet", "credentials of a cluster"),
    ("/var/spool", "mail and jobs of users"),
    ("/var/mail", "mail"),
    ("/etc/shadow-", "passwords"),
    ("/etc/gshadow-", "passwords"),
    ("/etc/security", "passwords and rights of users"),
    ("/etc/polkit-1", "rights of users"),
    ("/etc/sssd", "passwords"),
    ("/etc/ldap.secret", "a password"),
    ("/etc/pki/tls/private", "keys of this host"),
    ("/etc/pki/nssdb", "keys of this host"),
    ("/etc/letsencrypt", "keys of this host"),
    ("/etc/wireguard", "keys of this host"),
    ("/etc/openvpn", "keys of this host"),
    ("/etc/ipsec.secrets", "keys of this host"),
    ("/etc/ipsec.d", "keys of this host"),
    ("/etc/swanctl", "keys of this host"),
    ("/etc/luks-keys", "keys of this host"),
    ("/etc/cryptsetup-keys.d", "keys of this host"),
    ("/etc/NetworkManager/system-connections", "passwords of networks"),
    ("/etc/netplan", "passwords of networks"),
    ("/etc/wpa_supplicant", "passwords of networks"),
    ("/etc/ppp", "passwords of networks"),
    ("/etc/mysql/debian.cnf", "passwords"),
    ("/etc/postfix/sasl_passwd", "passwords"),
    ("/etc/exim4/passwd.client", "passwords"),
    ("/etc/rancher", "credentials of a cluster"),
    ("/etc/containers", "credentials of registries"),
    ("/etc/boto.cfg", "credentials of a cloud"),
    ("/etc/google", "credentials of a cloud"),
    ("/var/backups", "copies of passwords and keys"),
    ("/var/log", "logs of this host"),
    ("/var/lib/rancher", "credentials of a cluster"),
    ("/var/lib/NetworkManager", "passwords of networks"),
    ("/var/lib/sss", "passwords"),
    ("/var/lib/cloud", "credentials of a cloud"),
    ("/var/lib/waagent", "credentials of a cloud"),
    ("/var/lib/systemd", "state of this host"),
    ("/var/lib/mysql", "a database"),
    ("/var/lib/postgresql", "a database"),
    ("/var/lib/redis", "a database"),
    ("/var/lib/mongodb", "a database"),
    ("/var/lib/private", "state of services"),
    ("/lost+found", "pieces of deleted files"),
];

/// Names of files, wherever they are; a leading `*` stands for any beginning.
const NAMES: &[(&str, &str)] = &[
    ("id_rsa", "an SSH key"),
    ("id_dsa", "an SSH key"),
    ("id_ecdsa", "an SSH key"),
    ("id_ed25519", "an SSH key"),
    ("id_ecdsa_sk", "an SSH key"),
    ("id_ed25519_sk", "an SSH key"),
    ("identity", "may be an SSH key"),
    ("*.key", "may be a private key"),
    ("*.pem", "may be a private key"),
    ("*.ppk", "may be a private key"),
    ("*.p8", "may be a private key"),
    ("*.pk8", "may be a private key"),
    ("*.pkcs12", "may be a private key"),
    ("*.asc", "may be a private key"),
    ("*.gpg", "may be a private key"),
    ("*.pgp", "may be a private key"),
    ("*.age", "may be a private key"),
    ("*.ovpn", "may be a private key"),
    ("*.bks", "may be a private key"),
    ("*.keytab", "may be a private key"),
    ("*.kdb", "passwords"),
    ("*.agilekeychain", "passwords"),
    ("*_history", "a history of commands"),
    ("*.tfstate", "may hold passwords"),
    ("*.tfvars", "may hold passwords"),
    (".envrc", "may hold tokens"),
    (".pgpass", "passwords"),
    (".my.cnf", "passwords"),
    (".mylogin.cnf", "passwords"),
    (".s3cfg", "credentials of a cloud"),
    (".boto", "credentials of a cloud"),
    (".dockercfg", "credentials of registries"),
    (".dockerconfigjson", "credentials of registries"),
    (".vault-token", "a token"),
    (".vault_pass", "a password"),
    (".terraformrc", "a token"),
    (".yarnrc.yml", "may hold a token"),
    ("auth.json", "may hold a token"),
    ("service-account.json", "credentials of a cloud"),
    ("application_default_credentials.json", "credentials of a cloud"),
    ("wallet.dat", "a wallet"),
    ("master.key", "may be a private key"),
    ("key4.db", "passwords of a browser"),
    ("logins.json", "passwords of a browser"),
    ("cookies.sqlite", "a browser's profile"),
    ("wp-config.php", "passwords"),
    ("*.p12", "may be a private key"),
    ("*.pfx", "may be a private key"),
    ("*.jks", "may be a private key"),
    ("*.keystore", "may be a private key"),
    ("*.kdbx", "passwords"),
    (".env", "may hold tokens"),
    (".netrc", "passwords"),
    (".npmrc", "may hold a token"),
    (".pypirc", "may hold a token"),
    (".git-credentials", "passwords"),
    (".htpasswd", "passwords"),
    ("credentials", "credentials"),
    ("credentials.json", "credentials"),
    ("*.sock", "a socket"),
    ("kubeconfig", "credentials of a cluster"),
    ("shadow", "passwords"),
    ("secrets.toml", "may hold tokens"),
];

/// Folders of this user and of hotcell, for the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Folders of hotcell: state and configuration.
    pub hotcell: Vec<PathBuf>,
}

/// Why a path on the host never becomes a rule.
#[must_use]
pub fn reason(path: &Path, own: &Own) -> Option<&'static str> {
    if own.hotcell.iter().any(|folder| path.starts_with(folder)) {
        return Some("hotcell's own state or configuration");
    }
    if let Some(why) = ABSOLUTE.iter().find(|(known, _)| path.starts_with(known)).map(|(_, why)| *why) {
        return Some(why);
    }
    if let Some(why) = by_name(path) {
        return Some(why);
    }
    // By position, so that it holds for the homes of others as well.
    let homes = homes(path, own);
    for home in &homes {
        let Ok(below) = path.strip_prefix(home) else { continue };
        if let Some(why) = AT_HOME.iter().find(|(known, _)| below.starts_with(known)).map(|(_, why)| *why) {
            return Some(why);
        }
        if below.starts_with(".config/hotcell") || below.starts_with(".local/state/hotcell") {
            return Some("hotcell's own state or configuration");
        }
        if own.home.as_deref() != Some(home.as_path())
            && own.home.as_deref().is_none_or(|own| !path.starts_with(own))
        {
            return Some("the home folder of another user");
        }
    }
    None
}

/// Whether a folder is too wide to be suggested, or has something protected below it by the table.
#[must_use]
pub fn is_too_wide(folder: &Path, own: &Own) -> bool {
    let holds = |known: &Path| known.starts_with(folder);
    folder.components().count() < 3
        || ABSOLUTE.iter().any(|(known, _)| holds(Path::new(known)))
        || own.hotcell.iter().any(|known| holds(known))
        || own.home.as_ref().is_some_and(|home| {
            holds(home)
                || AT_HOME.iter().any(|(known, _)| holds(&home.join(known)))
                || holds(&home.join(".config/hotcell"))
        })
}

fn by_name(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let fits = |known: &str| match known.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == known,
    };
    // `.env.local` and its kind.
    if name.starts_with(".env.") {
        return Some("may hold tokens");
    }
    NAMES.iter().find(|(known, _)| fits(known)).map(|(_, why)| *why)
}

/// The home folders in which a path may lie.
fn homes(path: &Path, own: &Own) -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = own.home.iter().cloned().collect();
    let parts: Vec<_> = path.iter().collect();
    match parts.as_slice() {
        [_, home, user, ..] if *home == "home" => homes.push(Path::new("/home").join(user)),
        [_, root, ..] if *root == "root" => homes.push("/root".into()),
        _ => {}
    }
    homes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Own {
        Own { home: Some("/home/me".into()), hotcell: vec!["/srv/hotcell-state".into()] }
    }

    #[test]
    fn secrets_and_the_kernel_are_protected() {
        for path in [
            "/home/me/.ssh",
            "/home/me/.ssh/config",
            "/home/me/.aws/credentials",
            "/home/me/.config/hotcell/config.toml",
            "/home/me/.local/state/hotcell/hotcell.db",
            "/home/me/work/app/.env",
            "/home/me/work/app/.env.local",
            "/home/me/work/tls/server.key",
            "/home/you/notes.txt",
            "/root/x",
            "/root/.ssh/id_rsa",
            "/proc/1/environ",
            "/sys/kernel",
            "/dev/kvm",
            "/run/docker.sock",
            "/var/run/docker.sock",
            "/srv/docker.sock",
            "/etc/shadow",
            "/srv/hotcell-state/x",
            "/srv/backup/id_rsa",
            "/home/me/.claude.json",
            "/home/me/.config/github-copilot/apps.json",
            "/home/me/.config/sops/age/keys.txt",
            "/home/me/.cache/huggingface/token",
            "/home/me/.Xauthority",
            "/home/me/.var/app/org.mozilla.firefox/x",
            "/home/me/.python_history",
            "/etc/shadow-",
            "/etc/wireguard/wg0.conf",
            "/etc/NetworkManager/system-connections/home.nmconnection",
            "/var/backups/shadow.bak",
            "/var/lib/postgresql/16/main/base/1",
            "/srv/app/SERVER.PEM",
            "/srv/app/ID_RSA",
            "/srv/app/terraform.tfstate",
            "/srv/app/.envrc",
            "/srv/app/Credentials.json",
        ] {
            assert!(reason(Path::new(path), &own()).is_some(), "{path}");
        }
        for path in [
            "/srv/data/a.csv",
            "/home/me/work/a.txt",
            "/home/me/.gitconfig",
            "/etc/hosts",
            "/opt/x/conf.ini",
            "/home/me/work/history.csv",
            "/home/me/snapshots/a.csv",
            "/etc/ssl/certs/ca-certificates.crt",
            "/etc/localtime",
            "/srv/app/keys.md",
            "/var/lib/app/data.db",
            "/home/me/.config/matplotlib/matplotlibrc",
        ] {
            assert_eq!(reason(Path::new(path), &own()), None, "{path}");
        }
        // Root's own home is not another user's.
        let root = Own { home: Some("/root".into()), hotcell: Vec::new() };
        assert_eq!(reason(Path::new("/root/work/a"), &root), None);
        assert!(reason(Path::new("/root/.ssh/known_hosts"), &root).is_some());
        // A home within another folder of homes.
        let nested = Own { home: Some("/home/group/me".into()), hotcell: Vec::new() };
        assert_eq!(reason(Path::new("/home/group/me/a"), &nested), None);
        assert!(reason(Path::new("/home/group/you/a"), &nested).is_some());
    }

    #[test]
    fn wide_folders_are_never_suggested() {
        for folder in
            ["/", "/srv", "/home", "/home/me", "/home/me/.config", "/etc", "/var/lib", "/home/me/.local"]
        {
            assert!(is_too_wide(Path::new(folder), &own()), "{folder}");
        }
        assert!(!is_too_wide(Path::new("/srv/data"), &own()));
    }
}
