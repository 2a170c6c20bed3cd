//! Blobs and the action cache.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::build::bazel::semver::SemVer;
use bazel_remote_apis::google::bytestream::byte_stream_server::ByteStream;
use bazel_remote_apis::google::bytestream::{
    QueryWriteStatusRequest, QueryWriteStatusResponse, ReadRequest, ReadResponse, WriteRequest, WriteResponse,
};
use bazel_remote_apis::google::rpc;
use futures_util::stream;
use hotcell_fleet::digest::Key;
use reapi::action_cache_server::ActionCache;
use reapi::capabilities_server::Capabilities;
use reapi::content_addressable_storage_server::ContentAddressableStorage;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Code, Request, Response, Status, Streaming};

/// Size of a piece of a large blob, in bytes.
const PIECE: usize = 64 << 10;

/// A lie about a blob.
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
}

#[derive(Default)]
struct Held {
    blobs: BTreeMap<Key, Vec<u8>>,
    lies: BTreeMap<Key, Lie>,
    /// Number of reads of each blob.
    reads: BTreeMap<Key, usize>,
    cached: BTreeMap<Key, reapi::ActionResult>,
    bars_cache: bool,
    stores_nothing: bool,
}

/// The storage.
#[derive(Default)]
pub struct Storage(Mutex<Held>);

impl Storage {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a blob.
    pub fn put(&self, bytes: Vec<u8>) -> Key {
        let key = Key::of(&bytes);
        self.held().blobs.insert(key, bytes);
        key
    }

    /// A blob.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Vec<u8>> {
        if key.size == 0 { Some(Vec::new()) } else { self.held().blobs.get(&key).cloned() }
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

    /// Answer for a reader: bytes, a status, or nothing.
    fn told(&self, key: Key) -> Result<Option<Vec<u8>>, Status> {
        let mut held = self.held();
        *held.reads.entry(key).or_default() += 1;
        let missing = || Status::not_found("no such blob");
        let bytes = held.blobs.get(&key).cloned().ok_or_else(missing);
        match held.lies.get(&key) {
            None => bytes.map(Some),
            Some(Lie::Silent) => Ok(None),
            Some(Lie::Missing) => Err(missing()),
            Some(Lie::Wrong) => bytes.map(|bytes| Some(bytes.iter().map(|b| b ^ 1).collect())),
            Some(Lie::Short) => bytes.map(|bytes| Some(bytes[..bytes.len() / 2].to_vec())),
            Some(Lie::Long) => bytes.map(|bytes| Some(bytes.repeat(64))),
        }
    }
}

fn key(digest: Option<&reapi::Digest>) -> Result<Key, Status> {
    Key::check(digest, "a blob").map_err(|e| Status::invalid_argument(e.message))
}

async fn forever<T>() -> T {
    std::future::pending().await
}

type Pieces<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ContentAddressableStorage for Storage {
    type GetTreeStream = Pieces<reapi::GetTreeResponse>;
    type GetChunkMappingStream = Pieces<reapi::GetChunkMappingResponse>;

    async fn find_missing_blobs(
        &self,
        request: Request<reapi::FindMissingBlobsRequest>,
    ) -> Result<Response<reapi::FindMissingBlobsResponse>, Status> {
        let mut answer = reapi::FindMissingBlobsResponse::default();
        for digest in request.into_inner().blob_digests {
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
        if self.held().stores_nothing {
            return Err(Status::permission_denied("read only"));
        }
        let mut answer = reapi::BatchUpdateBlobsResponse::default();
        for blob in request.into_inner().requests {
            let is_it = key(blob.digest.as_ref())? == self.put(blob.data);
            let code = if is_it { Code::Ok } else { Code::InvalidArgument };
            answer.responses.push(reapi::batch_update_blobs_response::Response {
                digest: blob.digest,
                status: Some(rpc::Status { code: code as i32, ..rpc::Status::default() }),
            });
        }
        Ok(Response::new(answer))
    }

    async fn batch_read_blobs(
        &self,
        request: Request<reapi::BatchReadBlobsRequest>,
    ) -> Result<Response<reapi::BatchReadBlobsResponse>, Status> {
        let mut answer = reapi::BatchReadBlobsResponse::default();
        for digest in request.into_inner().digests {
            let (data, code) = match self.told(key(Some(&digest))?) {
                Ok(Some(data)) => (data, Code::Ok),
                Ok(None) => return forever().await,
                Err(status) => (Vec::new(), status.code()),
            };
            answer.responses.push(reapi::batch_read_blobs_response::Response {
                digest: Some(digest),
                data,
                status: Some(rpc::Status { code: code as i32, ..rpc::Status::default() }),
                ..Default::default()
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
impl ByteStream for Storage {
    type ReadStream = Pieces<ReadResponse>;

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let name = request.into_inner().resource_name;
        let mut parts = name.rsplit('/');
        let size_bytes = parts.next().and_then(|size| size.parse().ok()).unwrap_or(-1);
        let hash = parts.next().unwrap_or_default().to_owned();
        let Some(bytes) = self.told(key(Some(&reapi::Digest { hash, size_bytes }))?)? else {
            return forever().await;
        };
        let pieces: Vec<_> =
            bytes.chunks(PIECE).map(|piece| Ok(ReadResponse { data: piece.to_vec() })).collect();
        Ok(Response::new(Box::pin(stream::iter(pieces))))
    }

    async fn write(
        &self,
        request: Request<Streaming<WriteRequest>>,
    ) -> Result<Response<WriteResponse>, Status> {
        if self.held().stores_nothing {
            return Err(Status::permission_denied("read only"));
        }
        let (mut pieces, mut bytes) = (request.into_inner(), Vec::new());
        while let Some(piece) = pieces.message().await? {
            bytes.extend_from_slice(&piece.data);
        }
        let committed_size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        self.put(bytes);
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
        let found = held.cached.get(&key(request.into_inner().action_digest.as_ref())?).cloned();
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
        _request: Request<reapi::GetCapabilitiesRequest>,
    ) -> Result<Response<reapi::ServerCapabilities>, Status> {
        let version = |minor| Some(SemVer { major: 2, minor, ..SemVer::default() });
        Ok(Response::new(reapi::ServerCapabilities {
            execution_capabilities: Some(reapi::ExecutionCapabilities {
                exec_enabled: true,
                ..Default::default()
            }),
            low_api_version: version(0),
            high_api_version: version(3),
            ..Default::default()
        }))
    }
}
