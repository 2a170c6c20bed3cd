//! `wasi:config` and `wasi:keyvalue`, of which there are only drafts: over the settings and the store that the plugin has by our own
//! interfaces, and with the same rights. Each draft is an interface of its own to the linker, with types of its own.

use wasmtime::component::{HasSelf, Linker, Resource};

use super::store::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::ask::{Blob, Refused};
use crate::runtime::state::State;
use crate::{Ask, Reply};

#[allow(missing_docs, reason = "written by a macro, documented in WIT")]
mod generated {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "hotcell:drafts/drafts",
        imports: { default: async | trappable },
        with: {
            "wasi:keyvalue/store@0.2.0-draft.bucket": super::Bucket,
            "wasi:keyvalue/store@0.2.0-draft2.bucket": super::Bucket,
            "wasi:keyvalue/atomics@0.2.0-draft2.cas": super::Cas,
        },
    });
}

use generated::wasi::config0_2_0_draft::runtime as config_runtime;
use generated::wasi::config0_2_0_draft::store as config_draft;
use generated::wasi::config0_2_0_draft_2024_09_27::store as config_dated;
use generated::wasi::config0_2_0_rc_1::store as config_rc;
use generated::wasi::keyvalue0_2_0_draft as kv_draft;
use generated::wasi::keyvalue0_2_0_draft2 as kv_draft2;

/// Names that the one store of a plugin has.
const STORES: [&str; 2] = ["default", ""];

/// Number of keys of one page.
const PAGE_LEN: usize = 1_024;

/// Maximum size of all values that are read at once, in bytes.
const MAX_READ_BYTES: usize = 4 << 20;

/// Maximum number of attempts to change a number that other callers change at the same time.
const MAX_TRIES: usize = 32;

/// The plugin's store; all handles mean the same.
#[derive(Debug)]
pub struct Bucket;

/// A value as it was.
#[derive(Debug)]
pub struct Cas {
    key: String,
    seen: Option<Vec<u8>>,
}

/// Why something did not work, in the words of every draft.
#[derive(Debug, PartialEq)]
pub(crate) enum Wrong {
    NoSuchStore,
    Other(String),
}

pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    generated::Drafts::add_to_linker::<_, HasSelf<State>>(linker, |state| state)
}

/// Error for a reply that has no value.
fn wrong(reply: Reply) -> Wrong {
    Wrong::Other(match reply {
        Reply::Refused { why } => match why {
            Refused::Denied(what) => format!("not granted: {what}"),
            Refused::NotSet => "it is not set".to_owned(),
            Refused::Full => "the store is full: 1,024 keys or 1 MiB".to_owned(),
            Refused::TooMuch(why) | Refused::Invalid(why) | Refused::Unavailable(why) => why,
        },
        _ => "the broker answered something else".to_owned(),
    })
}

fn too_large() -> Wrong {
    Wrong::Other(format!("a key has at most {MAX_KEY_BYTES} bytes, a value {MAX_VALUE_BYTES}"))
}

/// The number that a value stands for; nothing there is nought.
fn number(value: Option<&[u8]>) -> Option<i128> {
    let Some(value) = value else { return Some(0) };
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Where a page begins, as its cursor says: behind so many keys.
fn page(keys: &[String], from: u64) -> (Vec<String>, Option<u64>) {
    let from = usize::try_from(from).unwrap_or(usize::MAX).min(keys.len());
    let to = (from + PAGE_LEN).min(keys.len());
    (keys[from..to].to_vec(), (to < keys.len()).then_some(to as u64))
}

impl State {
    async fn setting(&mut self, key: String) -> Result<Option<String>, String> {
        if key.len() > MAX_KEY_BYTES {
            return Err(format!("a key has at most {MAX_KEY_BYTES} bytes"));
        }
        match self.question(Ask::Config { key }).await {
            Reply::Text { text } => Ok(text),
            Reply::Refused { why: Refused::NotSet } => Ok(None),
            reply => Err(match wrong(reply) {
                Wrong::Other(why) => why,
                Wrong::NoSuchStore => "there is no such store".to_owned(),
            }),
        }
    }

    async fn settings(&mut self) -> Result<Vec<(String, String)>, String> {
        let Reply::Keys { keys } = self.question(Ask::ConfigKeys).await else {
            return Err("the settings cannot be read".to_owned());
        };
        let mut all = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(value) = self.setting(key.clone()).await? {
                all.push((key, value));
            }
        }
        Ok(all)
    }

    /// Keeps a value as it was, counted as the guest's memory.
    fn see(&mut self, key: String, seen: Option<Vec<u8>>) -> wasmtime::Result<Resource<Cas>> {
        self.limiter.keep(seen.as_ref().map_or(0, Vec::len))?;
        Ok(self.table.push(Cas { key, seen })?)
    }

    fn forget(&mut self, cas: Resource<Cas>) -> wasmtime::Result<Cas> {
        let cas = self.table.delete(cas)?;
        self.limiter.release(cas.seen.as_ref().map_or(0, Vec::len));
        Ok(cas)
    }

    fn bucket(&mut self, name: &str) -> wasmtime::Result<Result<Resource<Bucket>, Wrong>> {
        if !STORES.contains(&name) {
            return Ok(Err(Wrong::NoSuchStore));
        }
        Ok(Ok(self.table.push(Bucket)?))
    }

    async fn value(&mut self, key: String) -> Result<Option<Vec<u8>>, Wrong> {
        if key.len() > MAX_KEY_BYTES {
            return Err(too_large());
        }
        match self.question(Ask::KvGet { key }).await {
            Reply::Value { value } => Ok(value.map(|Blob(bytes)| bytes)),
            reply => Err(wrong(reply)),
        }
    }

    async fn put(&mut self, key: String, value: Vec<u8>) -> Result<(), Wrong> {
        if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
            return Err(too_large());
        }
        done(self.question(Ask::KvSet { key, value: Blob(value) }).await)
    }

    async fn remove(&mut self, key: String) -> Result<(), Wrong> {
        if key.len() > MAX_KEY_BYTES {
            return Err(too_large());
        }
        done(self.question(Ask::KvDelete { key }).await)
    }

    async fn list(&mut self, from: u64) -> Result<(Vec<String>, Option<u64>), Wrong> {
        match self.question(Ask::KvKeys { prefix: String::new() }).await {
            Reply::Keys { keys } => Ok(page(&keys, from)),
            reply => Err(wrong(reply)),
        }
    }

    /// Sets a value that is still as it was seen. With what is there now, where it is not.
    async fn swapped(
        &mut self,
        key: String,
        seen: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<Result<(), Option<Vec<u8>>>, Wrong> {
        if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
            return Err(too_large());
        }
        match self.question(Ask::KvSwap { key, seen: seen.map(Blob), value: Blob(value) }).await {
            Reply::Done => Ok(Ok(())),
            Reply::Value { value } => Ok(Err(value.map(|Blob(bytes)| bytes))),
            reply => Err(wrong(reply)),
        }
    }

    /// Adds to a number within this range.
    async fn add(&mut self, key: String, delta: i128, range: (i128, i128)) -> Result<i128, Wrong> {
        let mut seen = self.value(key.clone()).await?;
        for _ in 0..MAX_TRIES {
            let now = number(seen.as_deref())
                .ok_or_else(|| Wrong::Other("the value is no number in decimal digits".to_owned()))?;
            let sum = now.saturating_add(delta);
            if sum < range.0 || sum > range.1 {
                return Err(Wrong::Other("the number would leave its range of 64 bits".to_owned()));
            }
            match self.swapped(key.clone(), seen, sum.to_string().into_bytes()).await? {
                Ok(()) => return Ok(sum),
                Err(other) => seen = other,
            }
        }
        Err(Wrong::Other("others change the value all the time".to_owned()))
    }

    async fn values(&mut self, keys: Vec<String>) -> Result<Vec<Option<(String, Vec<u8>)>>, Wrong> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        for key in keys {
            let value = self.value(key.clone()).await?;
            bytes += value.as_ref().map_or(0, Vec::len);
            if bytes > MAX_READ_BYTES {
                return Err(Wrong::Other(format!(
                    "the values have more than {MAX_READ_BYTES} bytes together"
                )));
            }
            all.push(value.map(|value| (key, value)));
        }
        Ok(all)
    }

    async fn put_all(&mut self, all: Vec<(String, Vec<u8>)>) -> Result<(), Wrong> {
        for (key, value) in all {
            self.put(key, value).await?;
        }
        Ok(())
    }

    async fn remove_all(&mut self, keys: Vec<String>) -> Result<(), Wrong> {
        for key in keys {
            self.remove(key).await?;
        }
        Ok(())
    }
}

fn done(reply: Reply) -> Result<(), Wrong> {
    if reply == Reply::Done { Ok(()) } else { Err(wrong(reply)) }
}

/// The settings, by one draft's types.
macro_rules! config {
    ($($draft:ident)*) => { $(
        impl $draft::Host for State {
            async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, $draft::Error>> {
                Ok(self.setting(key).await.map_err($draft::Error::Upstream))
            }

            async fn get_all(&mut self) -> wasmtime::Result<Result<Vec<(String, String)>, $draft::Error>> {
                Ok(self.settings().await.map_err($draft::Error::Upstream))
            }
        }
    )* };
}

config!(config_draft config_runtime config_dated config_rc);

/// The store, by one draft's types: with the number that a cursor means, and the cursor for a number.
macro_rules! keyvalue {
    ($draft:ident, $cursor:ty, $from:expr, $to:expr) => {
        impl From<Wrong> for $draft::store::Error {
            fn from(wrong: Wrong) -> Self {
                match wrong {
                    Wrong::NoSuchStore => Self::NoSuchStore,
                    Wrong::Other(why) => Self::Other(why),
                }
            }
        }

        impl $draft::store::Host for State {
            async fn open(
                &mut self,
                name: String,
            ) -> wasmtime::Result<Result<Resource<Bucket>, $draft::store::Error>> {
                Ok(self.bucket(&name)?.map_err(Into::into))
            }
        }

        impl $draft::store::HostBucket for State {
            async fn get(
                &mut self,
                _: Resource<Bucket>,
                key: String,
            ) -> wasmtime::Result<Result<Option<Vec<u8>>, $draft::store::Error>> {
                Ok(self.value(key).await.map_err(Into::into))
            }

            async fn set(
                &mut self,
                _: Resource<Bucket>,
                key: String,
                value: Vec<u8>,
            ) -> wasmtime::Result<Result<(), $draft::store::Error>> {
                Ok(self.put(key, value).await.map_err(Into::into))
            }

            async fn delete(
                &mut self,
                _: Resource<Bucket>,
                key: String,
            ) -> wasmtime::Result<Result<(), $draft::store::Error>> {
                Ok(self.remove(key).await.map_err(Into::into))
            }

            async fn exists(
                &mut self,
                _: Resource<Bucket>,
                key: String,
            ) -> wasmtime::Result<Result<bool, $draft::store::Error>> {
                Ok(self.value(key).await.map(|value| value.is_some()).map_err(Into::into))
            }

            async fn list_keys(
                &mut self,
                _: Resource<Bucket>,
                cursor: Option<$cursor>,
            ) -> wasmtime::Result<Result<$draft::store::KeyResponse, $draft::store::Error>> {
                let from: Option<u64> = cursor.map_or(Some(0), $from);
                let Some(from) = from else {
                    return Ok(Err(
                        Wrong::Other("the cursor does not belong to this store".to_owned()).into()
                    ));
                };
                let listed = self.list(from).await;
                Ok(listed
                    .map(|(keys, cursor)| $draft::store::KeyResponse { keys, cursor: cursor.map($to) })
                    .map_err(Into::into))
            }

            async fn drop(&mut self, this: Resource<Bucket>) -> wasmtime::Result<()> {
                self.table.delete(this)?;
                Ok(())
            }
        }

        impl $draft::batch::Host for State {
            async fn get_many(
                &mut self,
                _: Resource<Bucket>,
                keys: Vec<String>,
            ) -> wasmtime::Result<Result<Vec<Option<(String, Vec<u8>)>>, $draft::store::Error>> {
                Ok(self.values(keys).await.map_err(Into::into))
            }

            async fn set_many(
                &mut self,
                _: Resource<Bucket>,
                all: Vec<(String, Vec<u8>)>,
            ) -> wasmtime::Result<Result<(), $draft::store::Error>> {
                Ok(self.put_all(all).await.map_err(Into::into))
            }

            async fn delete_many(
                &mut self,
                _: Resource<Bucket>,
                keys: Vec<String>,
            ) -> wasmtime::Result<Result<(), $draft::store::Error>> {
                Ok(self.remove_all(keys).await.map_err(Into::into))
            }
        }
    };
}

keyvalue!(kv_draft, u64, Some, |at| at);
keyvalue!(kv_draft2, String, |cursor: String| cursor.parse().ok(), |at: u64| at.to_string());

impl kv_draft::atomics::Host for State {
    async fn increment(
        &mut self,
        _: Resource<Bucket>,
        key: String,
        delta: u64,
    ) -> wasmtime::Result<Result<u64, kv_draft::store::Error>> {
        let sum = self.add(key, delta.into(), (0, u64::MAX.into())).await;
        Ok(sum.map(|sum| u64::try_from(sum).unwrap_or(u64::MAX)).map_err(Into::into))
    }
}

impl kv_draft2::atomics::Host for State {
    async fn increment(
        &mut self,
        _: Resource<Bucket>,
        key: String,
        delta: i64,
    ) -> wasmtime::Result<Result<i64, kv_draft2::store::Error>> {
        let sum = self.add(key, delta.into(), (i64::MIN.into(), i64::MAX.into())).await;
        Ok(sum.map(|sum| i64::try_from(sum).unwrap_or(i64::MAX)).map_err(Into::into))
    }

    async fn swap(
        &mut self,
        cas: Resource<Cas>,
        value: Vec<u8>,
    ) -> wasmtime::Result<Result<(), kv_draft2::atomics::CasError>> {
        let Cas { key, seen } = self.forget(cas)?;
        Ok(match self.swapped(key.clone(), seen, value).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(seen)) => Err(kv_draft2::atomics::CasError::CasFailed(self.see(key, seen)?)),
            Err(wrong) => Err(kv_draft2::atomics::CasError::StoreError(wrong.into())),
        })
    }
}

impl kv_draft2::atomics::HostCas for State {
    async fn new(
        &mut self,
        _: Resource<Bucket>,
        key: String,
    ) -> wasmtime::Result<Result<Resource<Cas>, kv_draft2::store::Error>> {
        Ok(match self.value(key.clone()).await {
            Ok(seen) => Ok(self.see(key, seen)?),
            Err(wrong) => Err(wrong.into()),
        })
    }

    async fn current(
        &mut self,
        this: Resource<Cas>,
    ) -> wasmtime::Result<Result<Option<Vec<u8>>, kv_draft2::store::Error>> {
        Ok(Ok(self.table.get(&this)?.seen.clone()))
    }

    async fn drop(&mut self, this: Resource<Cas>) -> wasmtime::Result<()> {
        self.forget(this).map(drop)
    }
}

#[cfg(test)]
mod tests;
