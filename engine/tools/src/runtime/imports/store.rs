//! `config`, `secret` and `kv`: data that outlives a call.

use wasmtime::component::Resource;

use super::generated::hotcell::tool::{config, kv, secret};
use crate::ask::{Blob, Refused};
use crate::runtime::state::State;
use crate::{Ask, Reply};

/// Maximum length of a name or a key, in bytes.
pub(crate) const MAX_KEY_BYTES: usize = 256;

/// Maximum length of a value, in bytes.
pub(crate) const MAX_VALUE_BYTES: usize = 64 << 10;

/// Handle of a secret; its value is not here.
#[derive(Debug)]
pub struct Secret {
    placeholder: String,
}

impl State {
    /// Asks, unless the call has asked too much.
    pub(crate) async fn question(&mut self, ask: Ask) -> Reply {
        if self.counts.questions.take(1) {
            self.asker.ask(ask).await
        } else {
            Reply::Refused { why: Refused::Unavailable("the call has asked too much".to_owned()) }
        }
    }
}

impl config::Host for State {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, config::Error>> {
        if key.len() > MAX_KEY_BYTES {
            return Ok(Err(config::Error::Denied));
        }
        Ok(match self.question(Ask::Config { key }).await {
            Reply::Text { text } => Ok(text),
            Reply::Refused { why: Refused::NotSet } => Ok(None),
            // An invalid key cannot be granted.
            Reply::Refused { why: Refused::Denied(_) | Refused::Invalid(_) } => Err(config::Error::Denied),
            _ => Err(config::Error::Unavailable),
        })
    }
}

impl secret::Host for State {
    async fn get(&mut self, name: String) -> wasmtime::Result<Result<Resource<Secret>, secret::Error>> {
        if name.len() > MAX_KEY_BYTES {
            return Ok(Err(secret::Error::Denied));
        }
        Ok(match self.question(Ask::Secret { name }).await {
            Reply::Text { text: Some(placeholder) } => Ok(self.table.push(Secret { placeholder })?),
            Reply::Text { text: None } | Reply::Refused { why: Refused::NotSet } => {
                Err(secret::Error::NotSet)
            }
            Reply::Refused { why: Refused::Denied(_) | Refused::Invalid(_) } => Err(secret::Error::Denied),
            _ => Err(secret::Error::Unavailable),
        })
    }
}

impl secret::HostHandle for State {
    async fn placeholder(&mut self, this: Resource<Secret>) -> wasmtime::Result<String> {
        Ok(self.table.get(&this)?.placeholder.clone())
    }

    async fn drop(&mut self, this: Resource<Secret>) -> wasmtime::Result<()> {
        self.table.delete(this)?;
        Ok(())
    }
}

impl kv::Host for State {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, kv::Error>> {
        if key.len() > MAX_KEY_BYTES {
            return Ok(Err(kv::Error::TooLarge));
        }
        Ok(match self.question(Ask::KvGet { key }).await {
            Reply::Value { value } => Ok(value.map(|Blob(bytes)| bytes)),
            reply => Err(kv_error(&reply)),
        })
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), kv::Error>> {
        if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
            return Ok(Err(kv::Error::TooLarge));
        }
        Ok(done(&self.question(Ask::KvSet { key, value: Blob(value) }).await))
    }

    async fn delete(&mut self, key: String) -> wasmtime::Result<Result<(), kv::Error>> {
        if key.len() > MAX_KEY_BYTES {
            return Ok(Err(kv::Error::TooLarge));
        }
        Ok(done(&self.question(Ask::KvDelete { key }).await))
    }

    async fn keys(&mut self, prefix: String) -> wasmtime::Result<Result<Vec<String>, kv::Error>> {
        if prefix.len() > MAX_KEY_BYTES {
            return Ok(Err(kv::Error::TooLarge));
        }
        Ok(match self.question(Ask::KvKeys { prefix }).await {
            Reply::Keys { keys } => Ok(keys),
            reply => Err(kv_error(&reply)),
        })
    }
}

fn done(reply: &Reply) -> Result<(), kv::Error> {
    if *reply == Reply::Done { Ok(()) } else { Err(kv_error(reply)) }
}

fn kv_error(reply: &Reply) -> kv::Error {
    match reply {
        Reply::Refused { why: Refused::TooMuch(_) } => kv::Error::TooLarge,
        Reply::Refused { why: Refused::Full } => kv::Error::Full,
        _ => kv::Error::Unavailable,
    }
}
