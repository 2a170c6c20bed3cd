//! Contents of a call's store.

use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::asker::Asker;
use crate::runtime::capture::Capture;
use crate::runtime::counts::Counts;
use crate::runtime::http::Http;
use crate::runtime::limiter::Limiter;
use crate::{Folder, Limits};

/// Maximum number of random bytes per request. WASI has no limit of its own, and the host allocates them.
const MAX_RANDOM_BYTES: u64 = 1 << 20;

/// Maximum size of one set of header fields, in bytes with overhead. A call may have as many sets as
/// resources.
const MAX_FIELDS_BYTES: usize = 64 << 10;

/// State that the host keeps for one call.
pub(crate) struct State {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    hooks: Http,
    pub(crate) table: ResourceTable,
    pub(crate) limiter: Limiter,
    pub(crate) capture: Capture,
    pub(crate) asker: Arc<Asker>,
    pub(crate) counts: Counts,
}

impl State {
    /// Creates a state in which the guest has only these folders and variables.
    ///
    /// # Errors
    ///
    /// A sentence that names the folder that cannot be opened, and the reason.
    pub(crate) fn new(
        folders: &[Folder],
        env: &[(String, String)],
        limits: &Limits,
        asker: Asker,
    ) -> Result<Self, String> {
        let capture = Capture::new(usize::try_from(limits.output.0).unwrap_or(usize::MAX));
        let asker = Arc::new(asker);
        let mut table = ResourceTable::new();
        // An object to wait for (a pollable) has two entries, and counts once: handles are counted
        // separately.
        table.set_max_capacity((limits.resources as usize).saturating_mul(2));
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(MAX_FIELDS_BYTES);
        Ok(Self {
            wasi: context(folders, env, &capture)?,
            http,
            hooks: Http::new(Arc::clone(&asker)),
            table,
            limiter: Limiter::new(limits),
            capture,
            asker,
            counts: Counts::default(),
        })
    }

    /// Begins another call in the instance that is kept.
    pub(crate) fn begin(&mut self, limits: &Limits, asker: Asker) {
        self.asker = Arc::new(asker);
        self.hooks = Http::new(Arc::clone(&self.asker));
        self.counts = Counts::default();
        self.capture.begin(usize::try_from(limits.output.0).unwrap_or(usize::MAX));
        self.limiter.begin();
    }
}

/// Standard input stays closed, sockets and host names stay denied, there are no arguments: the builder's own
/// defaults.
fn context(folders: &[Folder], env: &[(String, String)], capture: &Capture) -> Result<WasiCtx, String> {
    let mut wasi = WasiCtxBuilder::new();
    wasi.stdout(capture.stdout()).stderr(capture.stderr()).envs(env).max_random_size(MAX_RANDOM_BYTES);
    for folder in folders {
        let name = folder.path.to_str();
        let name =
            name.ok_or_else(|| format!("{}: only names in UTF-8 can be granted", folder.path.display()))?;
        let opened = folder.open()?;
        let perms = if folder.writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        wasi.preopened_dir(opened.path(), name, perms).map_err(|error| format!("{name}: {error:#}"))?;
    }
    Ok(wasi.build())
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.hooks, table: &mut self.table, ctx: &mut self.http }
    }
}
