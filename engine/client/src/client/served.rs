//! Resources and prompts of a server: lists, and single ones. All of it is foreign text.

use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest, ListResourcesRequest,
    PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use serde_json::{Map, Value};

use super::{Client, MAX_PAGES, locked};
use crate::error::ClientError;

/// Maximum number of resources, and of prompts.
pub const MAX_SERVED: usize = 1_000;

/// A page of a list: its entries, and the cursor of the next one.
pub(super) fn page(mut result: Value, key: &str) -> Option<(Vec<Value>, Option<String>)> {
    let next = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    let Value::Array(entries) = result.get_mut(key)?.take() else { return None };
    Some((entries, next))
}

impl Client {
    /// Whether the server says that it has resources, and prompts. Neither without a connection.
    #[must_use]
    pub fn serves(&self) -> (bool, bool) {
        let current = locked(&self.inner.current).clone();
        let info = current.and_then(|current| current.peer.peer_info());
        info.map_or((false, false), |info| {
            (info.capabilities.resources.is_some(), info.capabilities.prompts.is_some())
        })
    }

    /// Definitions of all resources.
    ///
    /// # Errors
    /// [`ClientError`] as for [`Client::tools`].
    pub async fn resources(&self) -> Result<Vec<Value>, ClientError> {
        self.pages("resources/list", "resources", |params| {
            ListResourcesRequest { params: Some(params), ..Default::default() }.into()
        })
        .await
    }

    /// Definitions of all prompts.
    ///
    /// # Errors
    /// [`ClientError`] as for [`Client::tools`].
    pub async fn prompts(&self) -> Result<Vec<Value>, ClientError> {
        self.pages("prompts/list", "prompts", |params| {
            ListPromptsRequest { params: Some(params), ..Default::default() }.into()
        })
        .await
    }

    /// Contents of a resource: objects with a `uri`, and a `text` or a `blob`.
    ///
    /// # Errors
    /// [`ClientError`] when the server does not answer in time or refuses.
    pub async fn resource(&self, uri: &str) -> Result<Vec<Value>, ClientError> {
        const WHAT: &str = "resources/read";
        let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
        let mut result = self.single(WHAT, request.into()).await?;
        match result["contents"].take() {
            Value::Array(contents) => Ok(contents),
            _ => Err(ClientError::Refused { what: WHAT, why: "its answer is no resource".to_owned() }),
        }
    }

    /// A prompt: an object with `messages`, and perhaps a `description`.
    ///
    /// # Errors
    /// [`ClientError`] when the server does not answer in time or refuses.
    pub async fn prompt(&self, name: &str, arguments: Map<String, Value>) -> Result<Value, ClientError> {
        const WHAT: &str = "prompts/get";
        let request = GetPromptRequest::new(GetPromptRequestParams::new(name).with_arguments(arguments));
        let result = self.single(WHAT, request.into()).await?;
        match result["messages"].is_array() {
            true => Ok(result),
            false => Err(ClientError::Refused { what: WHAT, why: "its answer is no prompt".to_owned() }),
        }
    }

    async fn single(&self, what: &'static str, request: ClientRequest) -> Result<Value, ClientError> {
        let result = self.inner.ask(what, request).await?;
        if matches!(result, ServerResult::InputRequiredResult(_)) {
            let why = "it asks for input first, which is not given".to_owned();
            return Err(ClientError::Refused { what, why });
        }
        Ok(serde_json::to_value(&result).unwrap_or_default())
    }

    async fn pages(
        &self,
        what: &'static str,
        key: &str,
        request: impl Fn(PaginatedRequestParams) -> ClientRequest,
    ) -> Result<Vec<Value>, ClientError> {
        let max_bytes = self.inner.options.max_message_bytes;
        let (mut all, mut cursor, mut bytes): (Vec<Value>, Option<String>, usize) = (Vec::new(), None, 0);
        for _ in 0..MAX_PAGES {
            let mut params = PaginatedRequestParams::default();
            params.cursor.clone_from(&cursor);
            let result = self.inner.ask(what, request(params)).await?;
            let Some((more, next)) = page(serde_json::to_value(&result).unwrap_or_default(), key) else {
                return Err(ClientError::Refused { what, why: "its answer is no such list".to_owned() });
            };
            bytes += more.iter().map(|entry| entry.to_string().len()).sum::<usize>();
            all.extend(more);
            if all.len() > MAX_SERVED || bytes > max_bytes {
                let why = format!("more than {MAX_SERVED} entries or {max_bytes} bytes");
                return Err(ClientError::TooLarge { what, why });
            }
            match next {
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => return Ok(all),
            }
        }
        Err(ClientError::TooLarge { what, why: format!("more than {MAX_PAGES} pages") })
    }
}
