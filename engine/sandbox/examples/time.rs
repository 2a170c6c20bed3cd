//! quick timing
use hotcell_sandbox::{Engine, Policy};
use std::time::Instant;
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let n = 300;
    let e = Engine::new();
    e.keep_ready(2);
    let mut p = Policy::new("/bin/true");
    for l in std::env::args().skip(1) { p = p.without_layer(l.parse().unwrap(), hotcell_sandbox::danger::WeakensTheSandbox); }
    let mut t = vec![];
    let mut s = vec![];
    let mut steps: std::collections::BTreeMap<String, Vec<u64>> = Default::default();
    let gap = std::env::var("GAP").ok().and_then(|g| g.parse().ok()).unwrap_or(0);
    for _ in 0..n {
        tokio::time::sleep(std::time::Duration::from_millis(gap)).await;
        let a = Instant::now();
        let o = e.run(&p).await; 
        t.push(a.elapsed().as_micros());
        assert!(o.success(), "{o:?}");
        for (k, v) in o.timings_us.steps {
            steps.entry(k).or_default().push(v);
        }
        let a = Instant::now();
        std::process::Command::new("/bin/true").status().unwrap();
        s.push(a.elapsed().as_micros());
    }
    t.sort();
    s.sort();
    println!(
        "hotcell p50 {} min {} p95 {}  spawn p50 {} min {}  ratio {:.2}",
        t[n / 2],
        t[0],
        t[n * 95 / 100],
        s[n / 2],
        s[0],
        t[n / 2] as f64 / s[n / 2] as f64
    );
    for (k, mut v) in steps {
        v.sort();
        print!("{k} {}  ", v[v.len() / 2]);
    }
    println!();
    let mut b = vec![];
    for _ in 0..60 {
        let a = Instant::now();
        std::process::Command::new("bwrap")
            .args([
                "--ro-bind",
                "/usr",
                "/usr",
                "--symlink",
                "usr/bin",
                "/bin",
                "--symlink",
                "usr/lib",
                "/lib",
                "--symlink",
                "usr/lib64",
                "/lib64",
                "--proc",
                "/proc",
                "--dev",
                "/dev",
                "--tmpfs",
                "/tmp",
                "--unshare-all",
                "--die-with-parent",
                "/bin/true",
            ])
            .status()
            .unwrap();
        b.push(a.elapsed().as_micros());
    }
    b.sort();
    println!("bwrap p50 {} min {}", b[30], b[0]);
}
