//! A connection of a program that knows of no proxy: it came to a name's own address on the sandbox's loopback, and goes on to where the
//! rule of that name says, judged like a tunnel.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::error::ConnectError;
use crate::host::Host;
use crate::ledger::Operation;
use crate::proxy::Shared;
use crate::rule::Relay;
use crate::stream::Input;

impl Shared {
    /// Serves one connection to a relay.
    pub(crate) async fn relay(self: &Arc<Self>, client: TcpStream, to: &Relay) -> io::Result<()> {
        let _ = client.set_nodelay(true);
        let (host, port) = (Host::Name(to.name.clone()), to.port);
        if let Some(tls) = self.intercepts(&host, port) {
            let (from, back) = client.into_split();
            return self.intercepted(Input::new(from), back, tls, &host, port).await;
        }
        let row = self.record("RELAY", &host, port, String::new());
        match self.connect(Operation::Connect, &host, port).await {
            Ok(server) => {
                row.connected();
                let (from, back) = client.into_split();
                self.tunnel(Input::new(from), back, server, (&host, port), &row).await
            }
            Err(error @ ConnectError::Denied(_)) => {
                row.refused(&error);
                Ok(())
            }
            // The program has been connected already and sees an end: the reason is nowhere but here.
            Err(ConnectError::Unreachable(why)) => {
                let target = format!("{host}:{port}");
                let why = why.strip_prefix(&format!("{target}: ")).unwrap_or(&why);
                row.failed(why);
                self.note(Operation::Connect, format!("{target} (it is allowed, and not reached: {why})"));
                Ok(())
            }
        }
    }
}
