//! hotcell's own imports: each request of a guest becomes an [`Ask`], and the reply becomes the result in
//! WIT. Makes no decisions about authority; the broker does.

mod bytes;
mod drafts;
mod execute;
mod report;
mod store;
#[cfg(test)]
mod tests;

use wasmtime::component::{HasSelf, Linker};

use crate::runtime::state::State;

pub(crate) use bytes::Blob;

#[allow(missing_docs, reason = "written by a macro, documented in WIT")]
mod generated {
    wasmtime::component::bindgen!({
        path: "wit/hotcell",
        world: "hotcell:tool/tool",
        imports: {
            "hotcell:tool/cancelled": trappable,
            "hotcell:tool/blob": trappable,
            default: async | trappable,
        },
        with: {
            "hotcell:tool/blob.blob": super::bytes::Blob,
            "hotcell:tool/secret.handle": super::store::Secret,
        },
    });
}

pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    generated::Tool::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    drafts::add_to_linker(linker)
}
