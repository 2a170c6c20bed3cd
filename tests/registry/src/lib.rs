//! Debian's `docker-registry` on a port of loopback, with a store of its own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running registry, which is stopped on drop.
#[derive(Debug)]
pub struct Registry {
    child: Child,
    /// Address that it listens on: `127.0.0.1:PORT`.
    pub address: String,
    dir: tempfile::TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Registry {
    /// Starts a registry; `None`, with a message, if the program is not installed.
    ///
    /// # Panics
    /// When the registry does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        let program =
            ["/usr/bin/docker-registry", "/usr/bin/registry"].map(Path::new).into_iter().find(|p| p.exists());
        let Some(program) = program else {
            println!("skipped: no docker-registry; install it");
            return None;
        };
        // Retries if another process takes the port meanwhile.
        for _ in 0..10 {
            let dir = tempfile::tempdir().expect("a folder");
            let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let address = listener.expect("a port").to_string();
            let (config, root) = (dir.path().join("config.yml"), dir.path().join("data"));
            let text = format!(
                "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\nhttp: {{addr: '{address}'}}\n",
                root.display()
            );
            std::fs::write(&config, text).expect("written");
            let mut command = Command::new(program);
            command.arg("serve").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().expect("started");
            let until = Instant::now() + Duration::from_secs(20);
            while Instant::now() < until && child.try_wait().expect("a child").is_none() {
                if std::net::TcpStream::connect(&address).is_ok() {
                    return Some(Self { child, address, dir });
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("the registry does not start");
    }

    /// Path of the blob with this SHA-256 digest, in hexadecimal.
    #[must_use]
    pub fn file(&self, hex: &str) -> PathBuf {
        self.dir.path().join(format!("data/docker/registry/v2/blobs/sha256/{}/{hex}/data", &hex[..2]))
    }
}
