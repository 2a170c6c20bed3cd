//! `hotcell:tool/blob`: bytes that the host keeps for the guest, counted as the guest's memory. Does not
//! involve the broker.

use wasmtime::component::Resource;

use super::generated::hotcell::tool::blob;
use crate::runtime::state::State;

/// Bytes of a blob.
#[derive(Debug)]
pub struct Blob(pub(crate) Vec<u8>);

impl State {
    /// Keeps bytes for the guest.
    pub(crate) fn keep(&mut self, bytes: Vec<u8>) -> wasmtime::Result<Resource<Blob>> {
        self.limiter.keep(bytes.len())?;
        Ok(self.table.push(Blob(bytes))?)
    }

    /// Removes a blob and returns its bytes.
    pub(crate) fn release(&mut self, blob: Resource<Blob>) -> wasmtime::Result<Vec<u8>> {
        let Blob(bytes) = self.table.delete(blob)?;
        self.limiter.release(bytes.len());
        Ok(bytes)
    }
}

impl blob::Host for State {}

impl blob::HostBlob for State {
    fn new(&mut self, bytes: Vec<u8>) -> wasmtime::Result<Resource<Blob>> {
        self.keep(bytes)
    }

    fn length(&mut self, this: Resource<Blob>) -> wasmtime::Result<u64> {
        Ok(self.table.get(&this)?.0.len() as u64)
    }

    fn bytes(&mut self, this: Resource<Blob>) -> wasmtime::Result<Vec<u8>> {
        Ok(self.table.get(&this)?.0.clone())
    }

    fn part(&mut self, this: Resource<Blob>, offset: u64, length: u64) -> wasmtime::Result<Vec<u8>> {
        Ok(part(&self.table.get(&this)?.0, offset, length).to_vec())
    }

    fn drop(&mut self, this: Resource<Blob>) -> wasmtime::Result<()> {
        self.release(this).map(drop)
    }
}

/// The part of `bytes` in the given range, as far as it exists.
fn part(bytes: &[u8], offset: u64, length: u64) -> &[u8] {
    let at = |end: u64| usize::try_from(end).map_or(bytes.len(), |end| end.min(bytes.len()));
    &bytes[at(offset)..at(offset.saturating_add(length))]
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn byte_range_stays_within_value() {
        for (offset, length, wanted) in [
            (0, 2, "ab"),
            (1, 9, "bc"),
            (3, 1, ""),
            (9, 9, ""),
            (0, u64::MAX, "abc"),
            (2, u64::MAX, "c"),
            (u64::MAX, u64::MAX, ""),
        ] {
            assert_eq!(part(b"abc", offset, length), wanted.as_bytes(), "{offset} {length}");
        }
    }
}
