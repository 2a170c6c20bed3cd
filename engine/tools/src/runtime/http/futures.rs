//! Errors that a guest writes into futures of `wasi:http` 0.3: the host keeps them until they are read, which
//! may never happen, and their texts have any length. This module counts them as the guest's memory.

use std::fmt::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{
    Access, FutureConsumer, FutureReader, Lift, Linker, Lower, Resource, Source, StreamReader,
};
use wasmtime_wasi_http::p3::bindings::http::types::{
    ErrorCode, Fields, HostRequestWithStore, HostResponseWithStore, Request, RequestOptions, Response,
};
use wasmtime_wasi_http::{WasiHttp, WasiHttpView as _};

use crate::runtime::state::State;

/// The interface in its version 0.3 that wasmtime-wasi-http 48.0.8 links; a component may import any compatible
/// version.
pub(crate) const P3: &str = "wasi:http/types@0.3.0";

type Store<'a> = StoreContextMut<'a, State>;
type Read<T> = FutureReader<Result<T, ErrorCode>>;
type Trailers = Read<Option<Resource<Fields>>>;
type Parts = (Resource<Fields>, Option<StreamReader<u8>>, Trailers, Option<Resource<RequestOptions>>);

/// Shadows the functions that were linked before.
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut types = linker.instance(P3)?;
    types.func_wrap(
        "[static]request.new",
        |store: Store<'_>, (headers, contents, trailers, options): Parts| {
            let mut access = access(store);
            let trailers = counted(&mut access, trailers)?;
            Ok((<WasiHttp as HostRequestWithStore<State>>::new(
                access, headers, contents, trailers, options,
            )?,))
        },
    )?;
    types.func_wrap(
        "[static]response.new",
        |store: Store<'_>,
         (headers, contents, trailers): (Resource<Fields>, Option<StreamReader<u8>>, Trailers)| {
            let mut access = access(store);
            let trailers = counted(&mut access, trailers)?;
            Ok((<WasiHttp as HostResponseWithStore<State>>::new(access, headers, contents, trailers)?,))
        },
    )?;
    types.func_wrap(
        "[static]request.consume-body",
        |store: Store<'_>, (request, read): (Resource<Request>, Read<()>)| {
            let mut access = access(store);
            let read = counted(&mut access, read)?;
            Ok((<WasiHttp as HostRequestWithStore<State>>::consume_body(access, request, read)?,))
        },
    )?;
    types.func_wrap(
        "[static]response.consume-body",
        |store: Store<'_>, (response, read): (Resource<Response>, Read<()>)| {
            let mut access = access(store);
            let read = counted(&mut access, read)?;
            Ok((<WasiHttp as HostResponseWithStore<State>>::consume_body(access, response, read)?,))
        },
    )
}

fn access(store: Store<'_>) -> Access<'_, State, WasiHttp> {
    Access::<'_, State, WasiHttp>::new(store, State::http)
}

/// Wraps a future in one that counts.
fn counted<T: Lift + Lower + Send + Sync + 'static>(
    store: &mut Access<'_, State, WasiHttp>,
    future: Read<T>,
) -> wasmtime::Result<Read<T>> {
    let (to, from) = oneshot::channel();
    future.pipe(&mut *store, Counting(Some(to)))?;
    FutureReader::new(store, from)
}

/// Passes on the written value.
struct Counting<T>(Option<oneshot::Sender<Result<T, ErrorCode>>>);

impl<T: Lift + Send + 'static> FutureConsumer<State> for Counting<T> {
    type Item = Result<T, ErrorCode>;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: Store<'_>,
        mut source: Source<'_, Self::Item>,
        _: bool,
    ) -> Poll<wasmtime::Result<()>> {
        let mut written = None;
        source.read(&mut store, &mut written)?;
        if let (Some(written), Some(to)) = (written, self.0.take()) {
            if let Err(error) = &written {
                store.data_mut().limiter.keep(length(error))?;
            }
            // The reader may be gone.
            let _ = to.send(written);
        }
        Poll::Ready(Ok(()))
    }
}

/// Size of an error in bytes, whatever text it holds.
fn length(error: &ErrorCode) -> usize {
    struct Length(usize);
    impl fmt::Write for Length {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    // Counting cannot fail.
    let _ = write!(length, "{error:?}");
    length.0
}
