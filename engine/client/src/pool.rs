//! One client for each address and token: two users of one server share a connection, and two tokens never do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::client::{Client, Options};
use crate::endpoint::Endpoint;
use crate::server::Server;

/// Clients by address and digest of the token. A client ends when its last user drops it.
#[derive(Debug, Default)]
pub struct Pool {
    clients: Mutex<HashMap<String, Weak<Client>>>,
}

impl Pool {
    /// The client of an endpoint; the first time a new one, which is not connected yet.
    #[must_use]
    pub fn client(&self, endpoint: &Endpoint, options: &Options) -> Arc<Client> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, client| client.strong_count() > 0);
        let key = endpoint.key();
        if let Some(client) = clients.get(&key).and_then(Weak::upgrade) {
            return client;
        }
        let client = Arc::new(Client::new(Server::Http(endpoint.clone()), options.clone()));
        clients.insert(key, Arc::downgrade(&client));
        client
    }
}

#[cfg(test)]
mod tests {
    use hotcell_egress::secret::Secret;

    use super::*;

    #[test]
    fn clients_are_shared_by_address_and_token_only() {
        let pool = Pool::default();
        let endpoint = |address: &str, token: &str| {
            Endpoint::new(address).unwrap().token(Secret::new(token.as_bytes().to_vec()).unwrap())
        };
        let of = |address: &str, token: &str| pool.client(&endpoint(address, token), &Options::default());
        let (one, again) = (of("https://a.example/mcp", "x"), of("https://a.example/mcp", "x"));
        assert!(Arc::ptr_eq(&one, &again));
        for (address, token) in [("https://a.example/mcp", "y"), ("https://b.example/mcp", "x")] {
            assert!(!Arc::ptr_eq(&one, &of(address, token)), "{address} {token}");
        }
        drop((one, again));
        assert_eq!(
            pool.clients.lock().unwrap().values().filter(|client| client.strong_count() > 0).count(),
            0
        );
    }
}
