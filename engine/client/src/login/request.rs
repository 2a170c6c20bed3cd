//! A login's request: as which client hotcell asks, and for which scopes.
//! MCP 2025-11-25, Authorization; draft-ietf-oauth-client-id-metadata-document

use hotcell_egress::secret::Secret;
use reqwest::Url;

use crate::error::ClientError;

/// Client that asks for tokens.
#[derive(Debug, Default)]
pub enum Identity {
    /// One that registers at the authorization server now (RFC 7591).
    #[default]
    New,
    /// One that was registered there before.
    Registered {
        /// Its id.
        id: String,
        /// Its secret, if it has one.
        secret: Option<Secret>,
    },
    /// One that a document at this address describes; the address is its name.
    Document(String),
}

impl Identity {
    /// Identity of a client by its id: an https address with a path is a document's.
    ///
    /// # Errors
    /// A sentence, when the id is empty or has characters that no id has (RFC 6749, A.1), or a document's client would have a secret.
    pub fn of(id: &str, secret: Option<Secret>) -> Result<Self, String> {
        if id.is_empty() || !id.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err("a client's id is printable ASCII".to_owned());
        }
        let url = Url::parse(id).ok().filter(|url| url.scheme() == "https");
        let is_document = url.is_some_and(|url| {
            !matches!(url.path(), "" | "/") && url.fragment().is_none() && url.username().is_empty()
        });
        match (is_document, secret) {
            (true, Some(_)) => Err("a client that a document describes has no secret".to_owned()),
            (true, None) => Ok(Self::Document(id.to_owned())),
            (false, secret) => Ok(Self::Registered { id: id.to_owned(), secret }),
        }
    }

    /// Decides whether the authorization server knows clients of this kind, by the field of its metadata that announces documents. Pure.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] for a document that it would not read.
    pub(super) fn judge(&self, reads_documents: bool) -> Result<(), ClientError> {
        match self {
            Self::Document(_) if !reads_documents => Err(ClientError::Endpoint(
                "the authorization server reads no documents of clients (client_id_metadata_document_supported): register hotcell there, and give the id"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

/// Request for a login.
#[derive(Debug, Default)]
pub struct LoginRequest {
    /// Client that asks.
    pub identity: Identity,
    /// Authorization server that the user named: no other one gets anything.
    pub issuer: Option<String>,
    /// Scopes beside those that the server asks for.
    pub scopes: Vec<String>,
    /// The login before, if there was one.
    pub former: Option<FormerLogin>,
    /// Port of this machine that the browser comes back to; 0 is any that is free.
    pub port: u16,
}

impl LoginRequest {
    /// Scopes of the login before, if it was one of this client at this authorization server.
    pub(super) fn former_scopes(&self, issuer: &str) -> &[String] {
        let same = self.former.as_ref().filter(|former| {
            let client = match &self.identity {
                Identity::New => None,
                Identity::Registered { id, .. } | Identity::Document(id) => Some(id),
            };
            former.issuer == issuer && client.is_none_or(|id| *id == former.client)
        });
        same.map_or(&[], |former| &former.scopes)
    }
}

/// A login whose tokens are kept.
#[derive(Clone, Debug)]
pub struct FormerLogin {
    /// Authorization server, as its metadata named itself.
    pub issuer: String,
    /// Id of the client.
    pub client: String,
    /// Scopes that its tokens were granted.
    pub scopes: Vec<String>,
}

/// The first list, and what the others have more, each once.
pub(super) fn union(first: Vec<String>, others: &[&[String]]) -> Vec<String> {
    let mut all = first;
    for scope in others.iter().copied().flatten() {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart_by_their_id() {
        let secret = || Some(Secret::new(b"hush".to_vec()).unwrap());
        for (id, with_secret, want) in [
            ("client-1", false, "registered"),
            ("client-1", true, "registered"),
            ("https://example.com/hotcell.json", false, "document"),
            ("https://example.com/hotcell.json", true, "no secret"),
            // An address without a path.
            ("https://example.com", false, "registered"),
            ("https://example.com/", true, "registered"),
            ("http://example.com/hotcell.json", false, "registered"),
            ("https://user@example.com/hotcell.json", false, "registered"),
            ("", false, "printable"),
            ("a\nb", false, "printable"),
            ("é", false, "printable"),
        ] {
            let got = match Identity::of(id, with_secret.then(secret).flatten()) {
                Ok(Identity::New) => "new".to_owned(),
                Ok(Identity::Registered { secret, .. }) => {
                    assert_eq!(secret.is_some(), with_secret, "{id}");
                    "registered".to_owned()
                }
                Ok(Identity::Document(url)) => {
                    assert_eq!(url, id);
                    "document".to_owned()
                }
                Err(why) => why,
            };
            assert!(got.contains(want), "{id}: {got}");
        }
        assert!(Identity::Document(String::new()).judge(false).is_err());
        assert!(Identity::Document(String::new()).judge(true).is_ok() && Identity::New.judge(false).is_ok());
    }

    #[test]
    fn scopes_of_another_client_or_server_are_not_asked_for() {
        let former = |client: &str| {
            let scopes = vec!["read".to_owned()];
            Some(FormerLogin { issuer: "https://a.test".to_owned(), client: client.to_owned(), scopes })
        };
        let registered = || Identity::of("app", None).unwrap();
        for (identity, client, issuer, want) in [
            (Identity::New, "c-1", "https://a.test", 1),
            (Identity::New, "c-1", "https://b.test", 0),
            (registered(), "app", "https://a.test", 1),
            (registered(), "c-1", "https://a.test", 0),
        ] {
            let request = LoginRequest { identity, former: former(client), ..LoginRequest::default() };
            assert_eq!(request.former_scopes(issuer).len(), want, "{request:?}");
        }
    }

    #[test]
    fn scopes_are_asked_for_once() {
        let list = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        assert_eq!(union(list(&["a"]), &[&list(&["b", "a"]), &list(&["b"])]), ["a", "b"]);
    }
}
