//! Marks of started runs in a farm: the calls beside the decisions of [`once`](crate::once).

use std::sync::Arc;

use crate::wire::Channel;
use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use hotcell_workspace::Folder;
use reapi::action_cache_client::ActionCacheClient;
use tonic::{Code, Status};

use crate::address::Address;
use crate::cas::{Blobs, Cas, Content};
use crate::error::{FleetError, Kind};
use crate::once::{Look, Step, Wrote, looked, mark, wrote};
use crate::wire::{CALL_TIMEOUT, within};

/// Maximum size of a mark in the action cache: a result of 32 bytes, and what a farm notes beside it. A larger one is not decoded,
/// since its repeated fields take many times their text in memory.
const MAX_MARK: usize = 64 << 10;

/// Places for marks.
#[derive(Clone, Debug)]
pub struct Marks {
    cache: ActionCacheClient<Channel>,
    instance: String,
}

impl Marks {
    /// The places of an instance.
    #[must_use]
    pub fn new(channel: &Channel, address: &Address) -> Self {
        let cache = ActionCacheClient::new(channel.clone()).max_decoding_message_size(MAX_MARK);
        Self { cache, instance: address.instance.clone() }
    }

    /// Marks a run as started; `folder` is any folder. [`Step::Go`] when it may begin.
    ///
    /// # Errors
    /// [`FleetError`] when this machine has no random bytes.
    pub async fn begin(&mut self, cas: &mut Cas, id: &str, folder: &Arc<Folder>) -> Result<Step, FleetError> {
        let (text, key) = mark(id);
        let stored = match cas.missing(&[key]).await {
            Ok(missing) if missing.is_empty() => Look::Marked,
            Ok(_) => Look::Unmarked,
            Err(error) => {
                if is_barred(&error) {
                    Look::Barred
                } else {
                    Look::Failed
                }
            }
        };
        let cached = match self.attempt(key.message()).await {
            Ok(Some(_)) => Look::Marked,
            Ok(None) => Look::Unmarked,
            Err(status) => {
                if says_barred(&status) {
                    Look::Barred
                } else {
                    Look::Failed
                }
            }
        };
        match looked(stored, cached) {
            Step::Go => {}
            step => return Ok(step),
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|e| FleetError::host(format!("no random bytes: {e}")))?;
        let ours = hex::encode(random);
        let blobs = Blobs::from([(key, Content::Bytes(text))]);
        let stored = match cas.upload(&blobs, folder).await {
            Ok(_) => Wrote::Ours,
            Err(error) => {
                if is_barred(&error) {
                    Wrote::Barred
                } else {
                    Wrote::Failed
                }
            }
        };
        let request = reapi::UpdateActionResultRequest {
            instance_name: self.instance.clone(),
            action_digest: Some(key.message()),
            action_result: Some(reapi::ActionResult {
                stdout_raw: ours.clone().into_bytes(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let cached = match self.cache.update_action_result(within(request, CALL_TIMEOUT)).await {
            Err(status) => {
                if says_barred(&status) {
                    Wrote::Barred
                } else {
                    Wrote::Failed
                }
            }
            Ok(_) => match self.attempt(key.message()).await {
                Ok(Some(attempt)) if attempt == ours.as_bytes() => Wrote::Ours,
                Ok(Some(_)) => Wrote::Theirs,
                // Forgotten at once: a place without memory.
                Ok(None) => Wrote::Barred,
                Err(_) => Wrote::Failed,
            },
        };
        Ok(wrote(stored, cached))
    }

    /// The attempt that an entry of the action cache names.
    async fn attempt(&mut self, key: reapi::Digest) -> Result<Option<Vec<u8>>, Status> {
        let request = reapi::GetActionResultRequest {
            instance_name: self.instance.clone(),
            action_digest: Some(key),
            inline_stdout: true,
            ..Default::default()
        };
        match self.cache.get_action_result(within(request, CALL_TIMEOUT)).await {
            Ok(answer) => Ok(Some(answer.into_inner().stdout_raw)),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(status),
        }
    }
}

/// True when a place is not offered, or not to workers. An unknown instance is a failure, not a bar.
fn says_barred(status: &Status) -> bool {
    matches!(status.code(), Code::Unimplemented | Code::PermissionDenied | Code::Unauthenticated)
}

const fn is_barred(error: &FleetError) -> bool {
    matches!(error.kind, Kind::Farm | Kind::Request)
}
