//! Capabilities, storage and streams of bytes.

use std::pin::Pin;
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::build::bazel::semver::SemVer;
use bazel_remote_apis::google::bytestream::byte_stream_server::ByteStream;
use bazel_remote_apis::google::bytestream::{
    QueryWriteStatusRequest, QueryWriteStatusResponse, ReadRequest, ReadResponse, WriteRequest, WriteResponse,
};
use bazel_remote_apis::google::rpc;
use futures_util::{Stream, stream};
use reapi::capabilities_server::Capabilities;
use reapi::content_addressable_storage_server::ContentAddressableStorage;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tonic::{Request, Response, Status, Streaming};

use crate::{Key, Lie, State, digest};

/// Size of a piece of a stream.
const PIECE: usize = 256 << 10;
/// `Compressor.Value.ZSTD`.
const ZSTD: i32 = 1;

#[tonic::async_trait]
impl Capabilities for State {
    async fn get_capabilities(
        &self,
        request: Request<reapi::GetCapabilitiesRequest>,
    ) -> Result<Response<reapi::ServerCapabilities>, Status> {
        self.check_instance(&request.get_ref().instance_name)?;
        let compressors = if self.rules.compresses { vec![0, ZSTD] } else { Vec::new() };
        let version = |major| Some(SemVer { major, ..SemVer::default() });
        let old = self.lies(Lie::OldVersion);
        Ok(Response::new(reapi::ServerCapabilities {
            cache_capabilities: Some(reapi::CacheCapabilities {
                digest_functions: vec![1],
                supported_compressors: compressors.clone(),
                supported_batch_update_compressors: compressors,
                ..Default::default()
            }),
            execution_capabilities: (!self.lies(Lie::NoExecution)).then(|| reapi::ExecutionCapabilities {
                digest_function: 1,
                exec_enabled: true,
                ..Default::default()
            }),
            low_api_version: version(if old { 1 } else { 2 }),
            high_api_version: version(if old { 1 } else { 2 }),
            ..Default::default()
        }))
    }
}

fn found() -> Option<rpc::Status> {
    Some(rpc::Status::default())
}

impl State {
    /// A blob as it is given away.
    fn given(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.lies(Lie::WrongBytes)
            && let Some(first) = bytes.first_mut()
        {
            *first ^= 1;
        }
        if self.lies(Lie::ShortReads) {
            bytes.pop();
        }
        bytes
    }

    fn compressed(&self, bytes: &[u8]) -> Vec<u8> {
        self.held().compressed += 1;
        let whole = if self.lies(Lie::Bomb) { vec![0; bytes.len() + (64 << 20)] } else { bytes.to_vec() };
        compress_to_vec(whole.as_slice(), CompressionLevel::Fastest)
    }
}

#[tonic::async_trait]
impl ContentAddressableStorage for State {
    type GetTreeStream = Pin<Box<dyn Stream<Item = Result<reapi::GetTreeResponse, Status>> + Send>>;
    type GetChunkMappingStream =
        Pin<Box<dyn Stream<Item = Result<reapi::GetChunkMappingResponse, Status>> + Send>>;

    async fn get_chunk_mapping(
        &self,
        _: Request<reapi::GetChunkMappingRequest>,
    ) -> Result<Response<Self::GetChunkMappingStream>, Status> {
        Err(Status::unimplemented("GetChunkMapping"))
    }

    async fn register_chunk_mapping(
        &self,
        _: Request<Streaming<reapi::RegisterChunkMappingRequest>>,
    ) -> Result<Response<reapi::RegisterChunkMappingResponse>, Status> {
        Err(Status::unimplemented("RegisterChunkMapping"))
    }

    async fn find_missing_blobs(
        &self,
        request: Request<reapi::FindMissingBlobsRequest>,
    ) -> Result<Response<reapi::FindMissingBlobsResponse>, Status> {
        let request = request.into_inner();
        self.check_instance(&request.instance_name)?;
        let held = self.held();
        let is_missing =
            |digest: &reapi::Digest| !held.blobs.contains_key(&(digest.hash.clone(), digest.size_bytes));
        let mut missing: Vec<_> = request.blob_digests.into_iter().filter(is_missing).collect();
        if self.lies(Lie::OtherMissing) {
            missing.push(digest(b"never asked for"));
        }
        Ok(Response::new(reapi::FindMissingBlobsResponse { missing_blob_digests: missing }))
    }

    async fn batch_update_blobs(
        &self,
        request: Request<reapi::BatchUpdateBlobsRequest>,
    ) -> Result<Response<reapi::BatchUpdateBlobsResponse>, Status> {
        let request = request.into_inner();
        self.check_instance(&request.instance_name)?;
        let mut responses = Vec::new();
        for one in request.requests {
            let digest = one.digest.unwrap_or_default();
            let data = match one.compressor {
                ZSTD => decompressed(&one.data)?,
                _ => one.data,
            };
            let is = crate::digest(&data);
            if is != digest {
                return Err(Status::invalid_argument("a blob has another digest"));
            }
            let mut held = self.held();
            held.uploaded += 1;
            held.compressed += usize::from(one.compressor == ZSTD);
            held.blobs.insert((is.hash, is.size_bytes), data);
            responses
                .push(reapi::batch_update_blobs_response::Response { digest: Some(digest), status: found() });
        }
        Ok(Response::new(reapi::BatchUpdateBlobsResponse { responses }))
    }

    async fn batch_read_blobs(
        &self,
        request: Request<reapi::BatchReadBlobsRequest>,
    ) -> Result<Response<reapi::BatchReadBlobsResponse>, Status> {
        let request = request.into_inner();
        self.check_instance(&request.instance_name)?;
        let compresses = self.rules.compresses && request.acceptable_compressors.contains(&ZSTD);
        let mut responses = Vec::new();
        for digest in request.digests {
            use reapi::batch_read_blobs_response::Response;
            responses.push(match self.get(Some(&digest)) {
                Ok(bytes) if compresses => {
                    let data = self.compressed(&self.given(bytes));
                    Response { digest: Some(digest), data, compressor: ZSTD, status: found() }
                }
                Ok(bytes) => {
                    Response { digest: Some(digest), data: self.given(bytes), compressor: 0, status: found() }
                }
                Err(status) => {
                    let status = rpc::Status {
                        code: status.code() as i32,
                        message: String::new(),
                        details: Vec::new(),
                    };
                    Response { digest: Some(digest), data: Vec::new(), compressor: 0, status: Some(status) }
                }
            });
        }
        Ok(Response::new(reapi::BatchReadBlobsResponse { responses }))
    }

    async fn get_tree(
        &self,
        _: Request<reapi::GetTreeRequest>,
    ) -> Result<Response<Self::GetTreeStream>, Status> {
        Err(Status::unimplemented("GetTree"))
    }

    async fn split_blob(
        &self,
        _: Request<reapi::SplitBlobRequest>,
    ) -> Result<Response<reapi::SplitBlobResponse>, Status> {
        Err(Status::unimplemented("SplitBlob"))
    }

    async fn splice_blob(
        &self,
        _: Request<reapi::SpliceBlobRequest>,
    ) -> Result<Response<reapi::SpliceBlobResponse>, Status> {
        Err(Status::unimplemented("SpliceBlob"))
    }
}

fn decompressed(bytes: &[u8]) -> Result<Vec<u8>, Status> {
    let wrong = |e: &dyn std::fmt::Display| Status::invalid_argument(format!("no zstd: {e}"));
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(bytes).map_err(|e| wrong(&e))?;
    let mut whole = Vec::new();
    std::io::Read::read_to_end(&mut decoder, &mut whole).map_err(|e| wrong(&e))?;
    Ok(whole)
}

/// The digest that a resource's name ends with, and whether it is compressed.
fn named(resource: &str) -> Result<(Key, bool), Status> {
    let mut parts = resource.rsplit('/');
    let (size, hash) = (parts.next(), parts.next());
    let wrong = || Status::invalid_argument(format!("no resource: {resource}"));
    let size = size.and_then(|size| size.parse().ok()).ok_or_else(wrong)?;
    Ok(((hash.ok_or_else(wrong)?.to_owned(), size), resource.contains("compressed-blobs/zstd/")))
}

type Pieces = Pin<Box<dyn Stream<Item = Result<ReadResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ByteStream for State {
    type ReadStream = Pieces;

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Pieces>, Status> {
        let name = request.into_inner().resource_name;
        if name.starts_with("logs/") {
            return Ok(Response::new(self.log(name)));
        }
        let ((hash, size_bytes), compressed) = named(&name)?;
        let mut bytes = self.given(self.get(Some(&reapi::Digest { hash, size_bytes }))?);
        if compressed {
            bytes = self.compressed(&bytes);
        }
        let pieces: Vec<_> =
            bytes.chunks(PIECE).map(|piece| Ok(ReadResponse { data: piece.to_vec() })).collect();
        Ok(Response::new(Box::pin(stream::iter(pieces))))
    }

    async fn write(
        &self,
        request: Request<Streaming<WriteRequest>>,
    ) -> Result<Response<WriteResponse>, Status> {
        let mut pieces = request.into_inner();
        let (mut name, mut bytes) = (String::new(), Vec::new());
        while let Some(piece) = pieces.message().await? {
            if name.is_empty() {
                name = piece.resource_name;
            }
            bytes.extend_from_slice(&piece.data);
        }
        let sent = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        let (key, compressed) = named(&name)?;
        if compressed {
            bytes = decompressed(&bytes)?;
        }
        let is = digest(&bytes);
        if (is.hash.clone(), is.size_bytes) != key {
            return Err(Status::invalid_argument("a blob has another digest"));
        }
        let mut held = self.held();
        held.uploaded += 1;
        held.compressed += usize::from(compressed);
        held.blobs.insert(key, bytes);
        let committed_size = if self.rules.lie == Some(Lie::ShortWrites) { sent - 1 } else { sent };
        Ok(Response::new(WriteResponse { committed_size }))
    }

    async fn query_write_status(
        &self,
        _: Request<QueryWriteStatusRequest>,
    ) -> Result<Response<QueryWriteStatusResponse>, Status> {
        Err(Status::unimplemented("QueryWriteStatus"))
    }
}

impl State {
    /// The output of an action as it comes.
    fn log(&self, name: String) -> Pieces {
        let state = self.clone();
        Box::pin(stream::unfold((state, name, 0), |(state, name, at)| async move {
            loop {
                let (bytes, ended) = state.held().logs.get(&name).cloned().unwrap_or_default();
                if bytes.len() > at {
                    let data = bytes[at..].to_vec();
                    let next = bytes.len();
                    return Some((Ok(ReadResponse { data }), (state, name, next)));
                }
                if ended {
                    return None;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }))
    }
}
