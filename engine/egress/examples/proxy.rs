//! A proxy on the loopback interface: `cargo run -p hotcell-egress --example proxy -- pypi.org:443`, then
//! `curl --proxy http://127.0.0.1:3128 https://pypi.org/` in another terminal. Ctrl-C ends it and prints the
//! denials.

use std::net::{TcpListener, UdpSocket};

use hotcell_egress::{AllowList, Egress, Sockets};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let list: AllowList = std::env::args().nth(1).unwrap_or_default().parse()?;
    let sockets = Sockets {
        proxy: TcpListener::bind("127.0.0.1:3128")?,
        names: UdpSocket::bind("127.0.0.1:5353")?,
        names_by_stream: TcpListener::bind("127.0.0.1:5353")?,
        relays: Vec::new(),
    };
    let serving = Egress::new(list).serve(sockets)?;
    tokio::signal::ctrl_c().await?;
    for denied in serving.finish() {
        println!("{} {} ({} times)", denied.operation, denied.target, denied.count);
    }
    Ok(())
}
