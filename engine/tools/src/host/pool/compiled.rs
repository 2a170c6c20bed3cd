//! Compiled forms and descriptions of components, made once and kept in the cache.

use std::fs::File;
use std::sync::PoisonError;
use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::cache;
use crate::host::checked::check_description;
use crate::host::restarts::RESTART_DELAY;
use crate::host::{Plugin, compile};
use crate::{BoxFuture, Description, LoadError};

use super::Hosts;

impl Hosts {
    /// Compiles and describes a component. Both results are cached: a component that is known already is not
    /// compiled again.
    ///
    /// # Errors
    /// The [`LoadError`] that keeps the component from being loaded.
    pub fn describe<'a>(&'a self, wasm: &'a [u8]) -> BoxFuture<'a, Result<Description, LoadError>> {
        Box::pin(async move {
            let digest = digest_of(wasm);
            if let Some(known) = self.known(&digest) {
                return Ok(known);
            }
            self.compile(&digest, wasm.to_vec()).await.map(|compiled| compiled.0)
        })
    }

    /// Compiled form of a component from the cache, sealed and written by this installation.
    #[must_use]
    pub fn compiled_form(&self, wasm: &[u8]) -> Option<File> {
        self.cache.get(&digest_of(wasm))
    }

    /// Description of a component by this very program, if its compiled form is cached too.
    fn known(&self, digest: &str) -> Option<Description> {
        let text = self.cache.said(digest, &self.build)?;
        let description = serde_json::from_slice(&text).ok()?;
        check_description(&description).ok()?;
        self.cache.has(digest).then_some(description)
    }

    /// Compiled form of a plugin, from the cache if it is there.
    pub(super) async fn compiled(&self, plugin: &Plugin, cached: bool) -> Result<File, LoadError> {
        if let Some(compiled) = cached.then(|| self.cache.get(&plugin.digest)).flatten() {
            return Ok(compiled);
        }
        let wasm = tokio::fs::read(&plugin.wasm).await.map_err(|e| LoadError::Host {
            message: format!("{} cannot be read: {e}", plugin.wasm.display()),
        })?;
        let digest = digest_of(&wasm);
        if digest != plugin.digest {
            let message = format!(
                "{} was changed: its digest is sha256:{digest}, and sha256:{} was added",
                plugin.wasm.display(),
                plugin.digest
            );
            return Err(LoadError::Changed { message });
        }
        if let Some(error) = self.failed_before(&digest) {
            return Err(error);
        }
        let (_, code) = self.compile(&digest, wasm).await?;
        cache::sealed(&code).map_err(|e| LoadError::Host {
            message: format!("a compiled component has no place in memory: {e}"),
        })
    }

    async fn compile(&self, digest: &str, wasm: Vec<u8>) -> Result<(Description, Vec<u8>), LoadError> {
        // The semaphore is never closed.
        let _turn = self.compiling.acquire().await;
        let options = &self.options;
        let policy =
            self.policy(&[], options.compile_memory).map_err(|message| LoadError::Host { message })?;
        let compiled = compile::compile(&self.engine, &policy, wasm, options).await;
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|_, (at, _)| at.elapsed() < RESTART_DELAY);
        match &compiled {
            Err(error) => drop(failed.insert(digest.to_owned(), (Instant::now(), error.clone()))),
            Ok(_) => drop(failed.remove(digest)),
        }
        drop(failed);
        let compiled = compiled?;
        let said = serde_json::to_vec(&compiled.0).unwrap_or_default();
        let kept = self.cache.put(digest, &compiled.1);
        if let Err(e) = kept.and_then(|()| self.cache.say(digest, &self.build, &said)) {
            tracing::warn!("the compiled form of {digest} is not kept: {e}");
        }
        Ok(compiled)
    }

    fn failed_before(&self, digest: &str) -> Option<LoadError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get(digest).filter(|(at, _)| at.elapsed() < RESTART_DELAY).map(|(_, error)| error.clone())
    }
}

/// Identity of the program's build: builds may describe a component differently.
pub(super) fn build_of(program: &std::path::Path) -> String {
    let about = std::fs::metadata(program);
    let written = about.as_ref().ok().and_then(|about| about.modified().ok());
    let since = written.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    let length = about.map_or(0, |about| about.len());
    format!("{} {length} {}", env!("CARGO_PKG_VERSION"), since.as_nanos())
}

/// SHA-256 of a component, in hexadecimal: [`Plugin::digest`].
#[must_use]
pub fn digest_of(wasm: &[u8]) -> String {
    hex::encode(Sha256::digest(wasm))
}
