//! A farm's content-addressed storage. Each blob is checked against its digest when it is sent and when it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::google::bytestream::byte_stream_client::ByteStreamClient;
use bazel_remote_apis::google::bytestream::{ReadRequest, WriteRequest};
use futures_util::stream::poll_fn;
use hotcell_workspace::Folder;
use reapi::content_addressable_storage_client::ContentAddressableStorageClient;
use tokio::sync::mpsc;

use crate::address::Address;
use crate::digest::{Hashing, Key};
use crate::error::{FleetError, Kind};
use crate::wire::{self, CALL_TIMEOUT, Channel, MAX_MESSAGE, within};
use crate::zstd;

/// Maximum size of the blobs of one batch, in bytes: below gRPC's 4 MiB for a message.
pub const MAX_BATCH: u64 = 3 << 20;
/// Maximum number of blobs of one batch.
const MAX_BATCH_BLOBS: usize = 1000;
/// Maximum number of digests of one question for missing blobs: 0.8 MB.
const MAX_QUESTION: usize = 10_000;
/// Size of a piece of a large blob, in bytes.
const PIECE: usize = 1 << 20;
/// Length of a time limit for each started 10 MiB of a large blob, beside that of a call.
const TRANSFER_BYTES: u64 = 10 << 20;

/// `Compressor.Value.ZSTD` of the API.
const ZSTD: i32 = 1;

/// Content of a blob that is uploaded.
#[derive(Clone, Debug)]
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A file below the folder of the upload.
    File(PathBuf),
}

/// Blobs to upload, by digest.
pub type Blobs = BTreeMap<Key, Content>;

/// The storage of an instance.
#[derive(Clone, Debug)]
pub struct Cas {
    store: ContentAddressableStorageClient<Channel>,
    stream: ByteStreamClient<Channel>,
    address: Address,
    /// Maximum size of one batch, in bytes.
    batch: u64,
    /// Maximum size of a blob that the server stores, in bytes.
    largest: u64,
    /// The server takes and gives blobs that zstd compressed, one by one.
    compresses: bool,
    /// The server takes blobs that zstd compressed in batches, too.
    compresses_batches: bool,
}

impl Cas {
    /// The storage at an address.
    #[must_use]
    pub fn new(channel: &Channel, address: &Address) -> Self {
        Self {
            store: ContentAddressableStorageClient::new(channel.clone())
                .max_decoding_message_size(MAX_MESSAGE),
            stream: ByteStreamClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE),
            address: address.clone(),
            batch: MAX_BATCH,
            largest: u64::MAX,
            compresses: false,
            compresses_batches: false,
        }
    }

    /// Lowers the size of a batch to the server's; 0 means that it has no bound.
    pub fn limit_batch(&mut self, bytes: i64) {
        if let Ok(bytes @ 1..) = u64::try_from(bytes) {
            self.batch = self.batch.min(bytes);
        }
    }

    /// Adapts to what the server says of itself: the sizes of its batches and blobs, where 0 means that they have no bound, and compression.
    pub fn adapt(&mut self, server: &reapi::CacheCapabilities) {
        self.limit_batch(server.max_batch_total_size_bytes);
        if let Ok(bytes @ 1..) = u64::try_from(server.max_cas_blob_size_bytes) {
            self.largest = bytes;
        }
        self.compresses = server.supported_compressors.contains(&ZSTD);
        self.compresses_batches = server.supported_batch_update_compressors.contains(&ZSTD);
    }

    fn failed(&self, what: &str, status: &tonic::Status) -> FleetError {
        wire::failed(&self.address.server, what, status)
    }

    /// A resource's name, below the instance's.
    fn resource(&self, name: &str) -> String {
        let instance = &self.address.instance;
        if instance.is_empty() { name.to_owned() } else { format!("{instance}/{name}") }
    }

    /// The blobs that the storage does not have.
    ///
    /// # Errors
    /// [`FleetError`] when it does not answer, or names one that was not asked for.
    pub async fn missing(&mut self, keys: &[Key]) -> Result<Vec<Key>, FleetError> {
        let mut missing = Vec::new();
        for part in keys.chunks(MAX_QUESTION) {
            let asked: BTreeSet<Key> = part.iter().copied().collect();
            let request = reapi::FindMissingBlobsRequest {
                instance_name: self.address.instance.clone(),
                blob_digests: asked.iter().map(Key::message).collect(),
                ..Default::default()
            };
            let answer = self.store.find_missing_blobs(within(request, CALL_TIMEOUT)).await;
            let answer = answer.map_err(|e| self.failed("FindMissingBlobs", &e))?.into_inner();
            for digest in &answer.missing_blob_digests {
                let key =
                    Key::check(Some(digest), "a missing blob").map_err(|e| FleetError::farm(e.message))?;
                if !asked.contains(&key) {
                    return Err(FleetError::farm("the farm misses a blob that it was not asked for"));
                }
                missing.push(key);
            }
        }
        Ok(missing)
    }

    /// Uploads the blobs that the storage does not have; returns their number and size.
    ///
    /// # Errors
    /// [`FleetError`] when a file is no longer what its digest says, or the storage refuses it; and, before anything is sent, when a blob is larger than
    /// the storage's largest.
    pub async fn upload(&mut self, blobs: &Blobs, folder: &Arc<Folder>) -> Result<(usize, u64), FleetError> {
        // The empty blob is never stored: the API says that it is there.
        let keys: Vec<Key> = blobs.keys().copied().filter(|key| key.size > 0).collect();
        let missing = self.missing(&keys).await?;
        if let Some(key) = missing.iter().find(|key| key.size > self.largest) {
            return Err(too_large(*key, &blobs[key], self.largest));
        }
        let sent = (missing.len(), missing.iter().map(|key| key.size).sum());
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for key in missing {
            let content = &blobs[&key];
            if key.size > self.batch / 2 {
                self.write(key, content, folder).await?;
                continue;
            }
            if bytes + key.size > self.batch || batch.len() == MAX_BATCH_BLOBS {
                self.send_batch(std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
            bytes += key.size;
            batch.push((key, whole(key, content, folder)?));
        }
        if !batch.is_empty() {
            self.send_batch(batch).await?;
        }
        Ok(sent)
    }

    async fn send_batch(&mut self, batch: Vec<(Key, Vec<u8>)>) -> Result<(), FleetError> {
        let compresses = self.compresses_batches;
        let requests = batch.into_iter().map(|(key, data)| {
            let smaller = if compresses && zstd::is_worth(key.size) { zstd::smaller(&data) } else { None };
            let compressor = if smaller.is_some() { ZSTD } else { 0 };
            let (digest, data) = (Some(key.message()), smaller.unwrap_or(data));
            reapi::batch_update_blobs_request::Request { digest, data, compressor }
        });
        let request = reapi::BatchUpdateBlobsRequest {
            instance_name: self.address.instance.clone(),
            requests: requests.collect(),
            ..Default::default()
        };
        let answer = self.store.batch_update_blobs(within(request, CALL_TIMEOUT)).await;
        let answer = answer.map_err(|e| self.failed("BatchUpdateBlobs", &e))?.into_inner();
        for status in answer.responses.iter().filter_map(|response| response.status.as_ref()) {
            if status.code != 0 {
                let status = tonic::Status::new(status.code.into(), status.message.clone());
                return Err(self.failed("a blob was not stored", &status));
            }
        }
        Ok(())
    }

    /// Sends a large blob in pieces.
    async fn write(&mut self, key: Key, content: &Content, folder: &Arc<Folder>) -> Result<(), FleetError> {
        if self.compresses && zstd::is_worth(key.size) && self.write_compressed(key, content, folder).await? {
            return Ok(());
        }
        let name = self.resource(&format!("uploads/{}/blobs/{}", random_uuid()?, key.name()));
        let (sender, mut receiver) = mpsc::channel(2);
        let (content, folder) = (content.clone(), folder.clone());
        let reading =
            tokio::task::spawn_blocking(move || read_pieces(key, &content, &folder, &name, &sender));
        let pieces = poll_fn(move |context| receiver.poll_recv(context));
        let written = self.stream.write(within(pieces, transfer(key.size))).await;
        // A file that changed is the reason why the server got no end.
        let read = reading.await.map_err(|e| FleetError::host(e.to_string()))?;
        match (written, read) {
            (_, Err(error)) => Err(error),
            (Err(status), Ok(())) => Err(self.failed("Write", &status)),
            (Ok(answer), Ok(())) => {
                let stored = answer.into_inner().committed_size;
                if u64::try_from(stored) == Ok(key.size) {
                    return Ok(());
                }
                Err(FleetError::farm(format!("the farm stored {stored} of {} bytes of a blob", key.size)))
            }
        }
    }

    /// Sends a blob in its compressed form; false where that is not smaller.
    async fn write_compressed(
        &mut self,
        key: Key,
        content: &Content,
        folder: &Arc<Folder>,
    ) -> Result<bool, FleetError> {
        let (content, folder) = (content.clone(), folder.clone());
        let compressed = tokio::task::spawn_blocking(move || {
            Ok::<_, FleetError>(zstd::smaller(&whole(key, &content, &folder)?))
        });
        let Some(bytes) = compressed.await.map_err(|e| FleetError::host(e.to_string()))?? else {
            return Ok(false);
        };
        let name = format!("uploads/{}/compressed-blobs/zstd/{}", random_uuid()?, key.name());
        let (mut resource_name, all) = (self.resource(&name), bytes.len());
        let mut at = 0;
        let pieces: Vec<WriteRequest> = bytes
            .chunks(PIECE)
            .map(|piece| {
                let write_offset = i64::try_from(at).unwrap_or(i64::MAX);
                at += piece.len();
                WriteRequest {
                    resource_name: std::mem::take(&mut resource_name),
                    write_offset,
                    finish_write: at == all,
                    data: piece.to_vec(),
                }
            })
            .collect();
        let written = self.stream.write(within(futures_util::stream::iter(pieces), transfer(key.size))).await;
        let stored = written.map_err(|e| self.failed("Write", &e))?.into_inner().committed_size;
        // -1: the server had the blob already.
        if stored == -1 || usize::try_from(stored) == Ok(all) {
            return Ok(true);
        }
        Err(FleetError::farm(format!("the farm stored {stored} of {all} bytes of a compressed blob")))
    }

    /// Reads a blob of at most `most` bytes.
    ///
    /// # Errors
    /// [`FleetError`] when it is larger, missing, or has other bytes than its digest says.
    pub async fn read(&mut self, key: Key, most: u64) -> Result<Vec<u8>, FleetError> {
        if key.size > most {
            return Err(FleetError::request(format!("the blob {} is larger than {most} bytes", key.name())));
        }
        if key.size > self.batch {
            let mut bytes = Vec::new();
            self.read_into(key, &mut bytes).await?;
            return Ok(bytes);
        }
        let mut read = self.read_batch(&[key]).await?;
        read.remove(&key).ok_or_else(|| missing(key))
    }

    /// The blobs that fit in one batch, from the beginning of a list; the rest of the list is left. Empty blobs need no
    /// reading.
    #[must_use]
    pub fn first_batch<'k>(&self, keys: &'k [Key]) -> (&'k [Key], &'k [Key]) {
        let (mut bytes, mut count) = (0, 0);
        for key in keys.iter().take(MAX_BATCH_BLOBS) {
            bytes += key.size;
            if bytes > self.batch {
                break;
            }
            count += 1;
        }
        keys.split_at(count)
    }

    /// Reads small blobs, which fit in one batch.
    ///
    /// # Errors
    /// [`FleetError`] when one is missing, or has other bytes than its digest says.
    pub async fn read_batch(&mut self, keys: &[Key]) -> Result<BTreeMap<Key, Vec<u8>>, FleetError> {
        let mut read: BTreeMap<Key, Vec<u8>> =
            keys.iter().filter(|key| key.size == 0).map(|key| (*key, Vec::new())).collect();
        if let Some(key) = read.keys().find(|key| **key != Key::of(b"")) {
            return Err(wrong(*key));
        }
        let asked: BTreeSet<Key> = keys.iter().copied().filter(|key| key.size > 0).collect();
        if asked.is_empty() {
            return Ok(read);
        }
        let request = reapi::BatchReadBlobsRequest {
            instance_name: self.address.instance.clone(),
            digests: asked.iter().map(Key::message).collect(),
            acceptable_compressors: if self.compresses { vec![0, ZSTD] } else { Vec::new() },
            ..Default::default()
        };
        let answer = self.store.batch_read_blobs(within(request, CALL_TIMEOUT)).await;
        let answer = answer.map_err(|e| self.failed("BatchReadBlobs", &e))?.into_inner();
        for response in answer.responses {
            let key = Key::check(response.digest.as_ref(), "a blob")
                .map_err(|error| FleetError::farm(error.message))?;
            match response.status.as_ref().map_or(0, |status| status.code) {
                0 => {}
                code if code == tonic::Code::NotFound as i32 => return Err(missing(key)),
                code => {
                    let said = response.status.map(|status| status.message).unwrap_or_default();
                    return Err(self.failed("a blob was not read", &tonic::Status::new(code.into(), said)));
                }
            }
            let data = match response.compressor {
                0 => response.data,
                ZSTD if self.compresses => zstd::exactly(&response.data, key.size).map_err(|_| wrong(key))?,
                _ => return Err(wrong(key)),
            };
            if !asked.contains(&key) || !key.is_of(&data) {
                return Err(wrong(key));
            }
            read.insert(key, data);
        }
        match asked.iter().find(|key| !read.contains_key(key)) {
            Some(key) => Err(missing(*key)),
            None => Ok(read),
        }
    }

    /// Reads a blob in pieces into `to`, which is to be thrown away after an error.
    ///
    /// # Errors
    /// [`FleetError`] when it is missing, or has other bytes than its digest says.
    pub async fn read_into(&mut self, key: Key, to: &mut (dyn Write + Send)) -> Result<(), FleetError> {
        if self.compresses && zstd::is_worth(key.size) {
            let bytes = self.read_compressed(key).await?;
            return to
                .write_all(&bytes)
                .map_err(|e| FleetError::host(format!("a blob cannot be written: {e}")));
        }
        let resource_name = self.resource(&format!("blobs/{}", key.name()));
        let request = ReadRequest { resource_name, ..ReadRequest::default() };
        let answer = self.stream.read(within(request, transfer(key.size))).await;
        let mut pieces = answer.map_err(|e| self.failed("Read", &e))?.into_inner();
        let mut hashing = Hashing::default();
        while let Some(piece) = pieces.message().await.map_err(|e| self.failed("Read", &e))? {
            hashing.add(&piece.data);
            if hashing.size() > key.size {
                return Err(wrong(key));
            }
            to.write_all(&piece.data)
                .map_err(|e| FleetError::host(format!("a blob cannot be written: {e}")))?;
        }
        if hashing.finish() == key { Ok(()) } else { Err(wrong(key)) }
    }

    /// Reads a blob in its compressed form.
    async fn read_compressed(&mut self, key: Key) -> Result<Vec<u8>, FleetError> {
        let resource_name = self.resource(&format!("compressed-blobs/zstd/{}", key.name()));
        let request = ReadRequest { resource_name, ..ReadRequest::default() };
        let answer = self.stream.read(within(request, transfer(key.size))).await;
        let mut pieces = answer.map_err(|e| self.failed("Read", &e))?.into_inner();
        let mut compressed = Vec::new();
        while let Some(piece) = pieces.message().await.map_err(|e| self.failed("Read", &e))? {
            compressed.extend_from_slice(&piece.data);
            if compressed.len() as u64 > zstd::bound(key.size) {
                return Err(wrong(key));
            }
        }
        let read = tokio::task::spawn_blocking(move || zstd::exactly(&compressed, key.size)).await;
        match read {
            Ok(Ok(bytes)) if key.is_of(&bytes) => Ok(bytes),
            _ => Err(wrong(key)),
        }
    }
}

fn missing(key: Key) -> FleetError {
    FleetError::new(Kind::Missing, format!("the farm does not have the blob {}", key.name()))
}

fn too_large(key: Key, content: &Content, largest: u64) -> FleetError {
    let what = match content {
        Content::Bytes(_) => format!("the blob {}", key.name()),
        Content::File(path) => path.display().to_string(),
    };
    FleetError::request(format!(
        "{what} has {} bytes, and the farm stores at most {largest} of a file",
        key.size
    ))
}

fn wrong(key: Key) -> FleetError {
    FleetError::farm(format!("the farm answered other bytes than the digest {} says", key.name()))
}

/// Time limit for a blob of this size: a minute, and ten seconds for each started 10 MiB.
fn transfer(bytes: u64) -> std::time::Duration {
    CALL_TIMEOUT + std::time::Duration::from_secs(10 * bytes.div_ceil(TRANSFER_BYTES))
}

fn random_uuid() -> Result<String, FleetError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| FleetError::host(format!("no random bytes: {e}")))?;
    let text = hex::encode(bytes);
    Ok([&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-"))
}

fn changed(key: Key, content: &Content) -> FleetError {
    match content {
        Content::File(path) => {
            FleetError::request(format!("{} changed while it was sent; try again", path.display()))
        }
        Content::Bytes(_) => FleetError::host(format!("the blob {} has another digest", key.name())),
    }
}

fn open(folder: &Folder, path: &std::path::Path) -> Result<File, FleetError> {
    folder.file(path).map_err(|e| FleetError::request(format!("{} cannot be read: {e}", path.display())))
}

fn whole(key: Key, content: &Content, folder: &Folder) -> Result<Vec<u8>, FleetError> {
    let bytes = match content {
        Content::Bytes(bytes) => bytes.clone(),
        Content::File(path) => {
            let mut bytes = Vec::new();
            let mut file = open(folder, path)?.take(key.size + 1);
            file.read_to_end(&mut bytes)
                .map_err(|e| FleetError::request(format!("{} cannot be read: {e}", path.display())))?;
            bytes
        }
    };
    if key.is_of(&bytes) { Ok(bytes) } else { Err(changed(key, content)) }
}

/// Sends a blob in pieces; the last one only if all of them are the blob that the digest names.
fn read_pieces(
    key: Key,
    content: &Content,
    folder: &Folder,
    name: &str,
    sender: &mpsc::Sender<WriteRequest>,
) -> Result<(), FleetError> {
    let mut from: Box<dyn Read> = match content {
        Content::Bytes(bytes) => Box::new(bytes.as_slice()),
        Content::File(path) => Box::new(open(folder, path)?),
    };
    let mut hashing = Hashing::default();
    let mut resource_name = name.to_owned();
    loop {
        let mut data = Vec::with_capacity(PIECE);
        let most = u64::try_from(PIECE).unwrap_or(u64::MAX);
        let read = (&mut from).take(most).read_to_end(&mut data);
        read.map_err(|e| FleetError::request(format!("a file cannot be read: {e}")))?;
        let write_offset = i64::try_from(hashing.size()).unwrap_or(i64::MAX);
        hashing.add(&data);
        let finish_write = hashing.size() >= key.size;
        if data.is_empty() || (finish_write && std::mem::take(&mut hashing).finish() != key) {
            return Err(changed(key, content));
        }
        let request = WriteRequest {
            resource_name: std::mem::take(&mut resource_name),
            write_offset,
            finish_write,
            data,
        };
        // A server that has the blob already reads no further.
        if sender.blocking_send(request).is_err() || finish_write {
            return Ok(());
        }
    }
}
