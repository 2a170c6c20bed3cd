//! Capabilities, blobs, streams of bytes and the action cache.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::build::bazel::semver::SemVer;
use bazel_remote_apis::google::bytestream::byte_stream_server::ByteStream;
use bazel_remote_apis::google::bytestream::{
    QueryWriteStatusRequest, QueryWriteStatusResponse, ReadRequest, ReadResponse, WriteRequest, WriteResponse,
};
use bazel_remote_apis::google::rpc;
use futures_util::stream;
use hotcell_fleet::digest::Key;
use prost::Message;
use reapi::action_cache_server::ActionCache;
use reapi::capabilities_server::Capabilities;
use reapi::content_addressable_storage_server::ContentAddressableStorage;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tonic::codegen::tokio_stream::Stream;
use tonic::{Code, Request, Response, Status, Streaming};

/// The only instance.
pub const INSTANCE: &str = "main";
/// Size of a piece of a large blob, in bytes.
const PIECE: usize = 64 << 10;
/// `Compressor.Value.ZSTD`.
const ZSTD: i32 = 1;

/// A lie about a blob, or about the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Other bytes of the same length.
    Wrong,
    /// Only the first half.
    Short,
    /// More bytes, without an end.
    Long,
    /// The blob is said to be there, and cannot be read.
    Missing,
    /// No answer.
    Silent,
    /// Compressed blobs are larger than they say.
    Bomb,
    /// Less is said to be stored than was sent.
    ShortWrites,
    /// Blobs are missed of which there was no question.
    OtherMissing,
    /// It speaks only version 1 of the protocol.
    OldVersion,
    /// It stores, and executes nothing.
    NoExecution,
}

#[derive(Debug, Default)]
struct Held {
    blobs: BTreeMap<Key, Vec<u8>>,
    lies: BTreeMap<Key, Lie>,
    /// Number of reads of each blob.
    reads: BTreeMap<Key, usize>,
    cached: BTreeMap<Key, reapi::ActionResult>,
    /// Output of an action so far, by the name of its stream; with true at its end.
    logs: BTreeMap<String, (Vec<u8>, bool)>,
    uploaded: usize,
    compressed: usize,
    bars_cache: bool,
    stores_nothing: bool,
}

/// The storage.
#[derive(Debug, Default)]
pub struct Storage {
    /// Lie about the storage itself, and about all blobs.
    lie: Option<Lie>,
    /// Takes and gives blobs that zstd compressed.
    compresses: bool,
    /// Maximum size of a blob, in bytes; 0 for any size.
    largest: i64,
    held: Mutex<Held>,
}

impl Storage {
    /// A storage with a lie, with compression, and with a maximum size of its blobs, in bytes; 0 for any size.
    #[must_use]
    pub fn new(lie: Option<Lie>, compresses: bool, largest: i64) -> Self {
        Self { lie, compresses, largest, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a blob.
    pub fn put(&self, bytes: Vec<u8>) -> Key {
        let key = Key::of(&bytes);
        self.held().blobs.insert(key, bytes);
        key
    }

    /// A blob. The empty one is always there (remote_execution.proto, "Digest").
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Vec<u8>> {
        if key.size == 0 { Some(Vec::new()) } else { self.held().blobs.get(&key).cloned() }
    }

    /// A blob by its digest in a message.
    ///
    /// # Errors
    /// The status for a client: no digest, no such blob.
    pub fn blob(&self, digest: Option<&reapi::Digest>) -> Result<Vec<u8>, Status> {
        self.get(key(digest)?).ok_or_else(|| Status::not_found("no such blob"))
    }

    /// All blobs.
    #[must_use]
    pub fn blobs(&self) -> Vec<Vec<u8>> {
        self.held().blobs.values().cloned().collect()
    }

    /// Lies about a blob from now on.
    pub fn lie(&self, key: Key, lie: Lie) {
        self.held().lies.insert(key, lie);
    }

    /// Tells the truth about all blobs.
    pub fn honest(&self) {
        self.held().lies.clear();
    }

    /// Number of reads so far.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.held().reads.values().sum()
    }

    /// Number of blobs that were uploaded.
    #[must_use]
    pub fn uploaded(&self) -> usize {
        self.held().uploaded
    }

    /// Number of blobs that were sent or read in their compressed form.
    #[must_use]
    pub fn compressed(&self) -> usize {
        self.held().compressed
    }

    /// Lets workers use the action cache no more.
    pub fn bar_cache(&self) {
        self.held().bars_cache = true;
    }

    /// Refuses all blobs from now on.
    pub fn store_nothing(&self) {
        self.held().stores_nothing = true;
    }

    /// Forgets the action cache.
    pub fn forget_cache(&self) {
        self.held().cached.clear();
    }

    /// The kept result of an action.
    #[must_use]
    pub fn cached(&self, action: Key) -> Option<reapi::ActionResult> {
        self.held().cached.get(&action).cloned()
    }

    /// Keeps the result of an action.
    pub fn cache(&self, action: Key, result: reapi::ActionResult) {
        self.held().cached.insert(action, result);
    }

    /// Shows the output of an action so far, or all of it.
    pub fn show(&self, stream: &str, bytes: Option<&[u8]>) {
        let mut held = self.held();
        let log = held.logs.entry(stream.to_owned()).or_default();
        match bytes {
            Some(bytes) => log.0 = bytes.to_vec(),
            None => log.1 = true,
        }
    }

    /// Checks the name of the instance.
    ///
    /// # Errors
    /// The status for a client.
    pub fn check_instance(&self, name: &str) -> Result<(), Status> {
        let wrong = || Status::invalid_argument(format!("Invalid instance name: [{name}]"));
        if name == INSTANCE { Ok(()) } else { Err(wrong()) }
    }

    /// Answer for a reader: bytes, a status, or nothing.
    fn told(&self, key: Key) -> Result<Option<Vec<u8>>, Status> {
        let bytes = self.get(key);
        let mut held = self.held();
        *held.reads.entry(key).or_default() += 1;
        let missing = || Status::not_found("no such blob");
        let bytes = bytes.ok_or_else(missing);
        match held.lies.get(&key).copied().or(self.lie) {
            Some(Lie::Silent) => Ok(None),
            Some(Lie::Missing) => Err(missing()),
            Some(Lie::Wrong) => bytes.map(|bytes| Some(bytes.iter().map(|b| b ^ 1).collect())),
            Some(Lie::Short) => bytes.map(|bytes| Some(bytes[..bytes.len() / 2].to_vec())),
            Some(Lie::Long) => bytes.map(|bytes| Some(bytes.repeat(64))),
            _ => bytes.map(Some),
        }
    }

    fn packed(&self, bytes: &[u8]) -> Vec<u8> {
        self.held().compressed += 1;
        let extra = if self.lie == Some(Lie::Bomb) { 64 << 20 } else { 0 };
        let whole = if extra > 0 { vec![0; bytes.len() + extra] } else { bytes.to_vec() };
        compress_to_vec(whole.as_slice(), CompressionLevel::Fastest)
    }

    /// Stores what a client sent, if it has the digest that the client says.
    fn take(&self, claimed: Key, bytes: Vec<u8>, compressed: bool) -> Result<(), Status> {
        let bytes = if compressed { unpacked(&bytes)? } else { bytes };
        if self.held().stores_nothing {
            return Err(Status::permission_denied("read only"));
        }
        if Key::of(&bytes) != claimed {
            return Err(Status::invalid_argument("a blob has another digest"));
        }
        let mut held = self.held();
        held.uploaded += 1;
        held.compressed += usize::from(compressed);
        held.blobs.insert(claimed, bytes);
        Ok(())
    }

    /// The output of an action as it comes.
    async fn log(&self, name: &str, at: usize) -> Option<Vec<u8>> {
        loop {
            let (bytes, ended) = self.held().logs.get(name).cloned().unwrap_or_default();
            if bytes.len() > at {
                return Some(bytes[at..].to_vec());
            }
            if ended {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn key(digest: Option<&reapi::Digest>) -> Result<Key, Status> {
    Key::check(digest, "a blob").map_err(|e| Status::invalid_argument(e.message))
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, Status> {
    let wrong = |e: &dyn std::fmt::Display| Status::invalid_argument(format!("no zstd: {e}"));
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(bytes).map_err(|e| wrong(&e))?;
    let mut whole = Vec::new();
    std::io::Read::read_to_end(&mut decoder, &mut whole).map_err(|e| wrong(&e))?;
    Ok(whole)
}

/// The blob that a resource's name ends with, and true if it is compressed.
fn named(resource: &str) -> Result<(Key, bool), Status> {
    let mut parts = resource.rsplit('/');
    let size_bytes = parts.next().and_then(|size| size.parse().ok()).unwrap_or(-1);
    let hash = parts.next().unwrap_or_default().to_owned();
    let found = key(Some(&reapi::Digest { hash, size_bytes }))?;
    Ok((found, resource.contains("compressed-blobs/zstd/")))
}

fn code(code: Code) -> Option<rpc::Status> {
    Some(rpc::Status { code: code as i32, ..rpc::Status::default() })
}

async fn forever<T>() -> T {
    std::future::pending().await
}

/// A storage, for streams that outlive their call.
#[derive(Clone, Debug)]
pub struct Shared(pub Arc<Storage>);

type Pieces<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ContentAddressableStorage for Storage {
    type GetTreeStream = Pieces<reapi::GetTreeResponse>;
    type GetChunkMappingStream = Pieces<reapi::GetChunkMappingResponse>;

    async fn find_missing_blobs(
        &self,
        request: Request<reapi::FindMissingBlobsRequest>,
    ) -> Result<Response<reapi::FindMissingBlobsResponse>, Status> {
        let request = request.into_inner();
        self.check_instance(&request.instance_name)?;
        let mut answer = reapi::FindMissingBlobsResponse::default();
        if self.lie == Some(Lie::OtherMissing) {
            answer.missing_blob_digests.push(Key::of(b"never asked for").message());
        }
        for digest in request.blob_digests {
            if !self.held().blobs.contains_key(&key(Some(&digest))?) {
                answer.missing_blob_digests.push(digest);
            }
        }
        Ok(Response::new(answer))
    }

    async fn batch_update_blobs(
        &self,
        request: Request<reapi::BatchUpdateBlobsRequest>,
    ) -> Result<Response<reapi::BatchUpdateBlobsResponse>, Status> {
        let request = request.into_inner();
        self.check_instance(&request.instance_name)?;
        let mut answer = reapi::BatchUpdateBlobsResponse::default();
        for blob in request.requests {
            let taken = self.take(key(blob.digest.as_ref())?, blob.data, blob.compressor == ZSTD);
            let said = taken.map_or_else(|status| status.code(), |()| Code::Ok);
            answer.responses.push(reapi::batch_update_blobs_response::Response {
                digest: blob.digest,
                status: code(said),
            });
        }
        Ok(Response::new(answer))
    }

    async fn batch_read_blobs(
        &self,
        request: Request<reapi::BatchReadBlobsRequest>,
    ) -> Result<Response<reapi::BatchReadBlobsResponse>, Status> {
        let request = request.into_inner();
        self.check_instance(&request.instance_name)?;
        let packs = self.compresses && request.acceptable_compressors.contains(&ZSTD);
        let mut answer = reapi::BatchReadBlobsResponse::default();
        for digest in request.digests {
            let (data, said) = match self.told(key(Some(&digest))?) {
                Ok(Some(data)) if packs => (self.packed(&data), Code::Ok),
                Ok(Some(data)) => (data, Code::Ok),
                Ok(None) => return forever().await,
                Err(status) => (Vec::new(), status.code()),
            };
            answer.responses.push(reapi::batch_read_blobs_response::Response {
                digest: Some(digest),
                data,
                compressor: if packs && said == Code::Ok { ZSTD } else { 0 },
                status: code(said),
            });
        }
        Ok(Response::new(answer))
    }

    async fn get_tree(
        &self,
        _request: Request<reapi::GetTreeRequest>,
    ) -> Result<Response<Self::GetTreeStream>, Status> {
        Err(Status::unimplemented("GetTree"))
    }

    async fn split_blob(
        &self,
        _request: Request<reapi::SplitBlobRequest>,
    ) -> Result<Response<reapi::SplitBlobResponse>, Status> {
        Err(Status::unimplemented("SplitBlob"))
    }

    async fn get_chunk_mapping(
        &self,
        _request: Request<reapi::GetChunkMappingRequest>,
    ) -> Result<Response<Self::GetChunkMappingStream>, Status> {
        Err(Status::unimplemented("GetChunkMapping"))
    }

    async fn splice_blob(
        &self,
        _request: Request<reapi::SpliceBlobRequest>,
    ) -> Result<Response<reapi::SpliceBlobResponse>, Status> {
        Err(Status::unimplemented("SpliceBlob"))
    }

    async fn register_chunk_mapping(
        &self,
        _request: Request<Streaming<reapi::RegisterChunkMappingRequest>>,
    ) -> Result<Response<reapi::RegisterChunkMappingResponse>, Status> {
        Err(Status::unimplemented("RegisterChunkMapping"))
    }
}

#[tonic::async_trait]
impl ByteStream for Shared {
    type ReadStream = Pieces<ReadResponse>;

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let name = request.into_inner().resource_name;
        if name.starts_with("logs/") {
            let pieces = stream::unfold((self.0.clone(), name, 0), |(storage, name, at)| async move {
                let data = storage.log(&name, at).await?;
                let next = at + data.len();
                Some((Ok(ReadResponse { data }), (storage, name, next)))
            });
            return Ok(Response::new(Box::pin(pieces)));
        }
        let (key, compressed) = named(&name)?;
        let Some(mut bytes) = self.0.told(key)? else { return forever().await };
        if compressed {
            bytes = self.0.packed(&bytes);
        }
        let pieces: Vec<_> =
            bytes.chunks(PIECE).map(|piece| Ok(ReadResponse { data: piece.to_vec() })).collect();
        Ok(Response::new(Box::pin(stream::iter(pieces))))
    }

    async fn write(
        &self,
        request: Request<Streaming<WriteRequest>>,
    ) -> Result<Response<WriteResponse>, Status> {
        let (mut pieces, mut name, mut bytes) = (request.into_inner(), String::new(), Vec::new());
        while let Some(piece) = pieces.message().await? {
            if name.is_empty() {
                name = piece.resource_name;
            }
            bytes.extend_from_slice(&piece.data);
        }
        let sent = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        let (key, compressed) = named(&name)?;
        self.0.take(key, bytes, compressed)?;
        let committed_size = sent - i64::from(self.0.lie == Some(Lie::ShortWrites));
        Ok(Response::new(WriteResponse { committed_size }))
    }

    async fn query_write_status(
        &self,
        _request: Request<QueryWriteStatusRequest>,
    ) -> Result<Response<QueryWriteStatusResponse>, Status> {
        Err(Status::unimplemented("QueryWriteStatus"))
    }
}

#[tonic::async_trait]
impl ActionCache for Storage {
    async fn get_action_result(
        &self,
        request: Request<reapi::GetActionResultRequest>,
    ) -> Result<Response<reapi::ActionResult>, Status> {
        let held = self.held();
        if held.bars_cache {
            return Err(Status::unimplemented("no action cache"));
        }
        let action = key(request.into_inner().action_digest.as_ref())?;
        let found = held.cached.get(&action).cloned();
        // BuildGrid reads the action of an entry, and fails where its blob is another message.
        if found.is_some()
            && held.blobs.get(&action).is_some_and(|blob| reapi::Action::decode(blob.as_slice()).is_err())
        {
            return Err(Status::unknown("Error parsing message"));
        }
        found.map(Response::new).ok_or_else(|| Status::not_found("not cached"))
    }

    async fn update_action_result(
        &self,
        request: Request<reapi::UpdateActionResultRequest>,
    ) -> Result<Response<reapi::ActionResult>, Status> {
        let mut held = self.held();
        if held.bars_cache {
            return Err(Status::unimplemented("no action cache"));
        }
        let request = request.into_inner();
        let result = request.action_result.unwrap_or_default();
        held.cached.insert(key(request.action_digest.as_ref())?, result.clone());
        Ok(Response::new(result))
    }
}

#[tonic::async_trait]
impl Capabilities for Storage {
    async fn get_capabilities(
        &self,
        request: Request<reapi::GetCapabilitiesRequest>,
    ) -> Result<Response<reapi::ServerCapabilities>, Status> {
        self.check_instance(&request.get_ref().instance_name)?;
        let compressors = if self.compresses { vec![0, ZSTD] } else { Vec::new() };
        let major = if self.lie == Some(Lie::OldVersion) { 1 } else { 2 };
        let version = |minor| Some(SemVer { major, minor, ..SemVer::default() });
        Ok(Response::new(reapi::ServerCapabilities {
            cache_capabilities: Some(reapi::CacheCapabilities {
                digest_functions: vec![1],
                supported_compressors: compressors.clone(),
                supported_batch_update_compressors: compressors,
                max_cas_blob_size_bytes: self.largest,
                ..Default::default()
            }),
            execution_capabilities: (self.lie != Some(Lie::NoExecution)).then(|| {
                reapi::ExecutionCapabilities { digest_function: 1, exec_enabled: true, ..Default::default() }
            }),
            low_api_version: version(0),
            high_api_version: version(3),
            ..Default::default()
        }))
    }
}
