//! Lists of the server, read to their last page.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::call::{Call, read_result};
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::io::{CallCallbacks, PeerRef};
use crate::client::results::{ListResult, ToolInfo};
use crate::client::session::CallRequest;
use crate::protocol::eras::Method;

/// Pages of one list, so that a server whose list does not end is not read forever.
const PAGES_MAX: usize = 1_000;

/// Reads all items of a list, which each page has in the member `key`.
pub(in crate::client) async fn read_list<T: DeserializeOwned>(
    peer: &Arc<PeerRef>,
    method: Method,
    key: &str,
) -> Result<Vec<T>, ClientError> {
    let mut items = Vec::new();
    let mut request = CallRequest::new(method);
    for _ in 0..PAGES_MAX {
        let response =
            Call::send(Arc::clone(peer), request.clone(), CallCallbacks::default()).await?;
        let result: Map<String, Value> = read_result(&response)?;
        let page = ListResult::read(result, key).map_err(|error| {
            let text = format!("the result of {} is invalid: {error}", method.as_str());
            ClientError::with_source(ClientErrorKind::Protocol, text, error)
        })?;
        items.extend(page.items);
        let Some(cursor) = page.next_cursor else { return Ok(items) };
        request.params = json!({ "cursor": cursor }).to_string().into_bytes();
    }
    let text = format!("{} has more than {PAGES_MAX} pages", method.as_str());
    Err(ClientError::new(ClientErrorKind::Protocol, text))
}

/// Reads the list of tools, and over HTTP the headers that their calls carry. Tools that a client
/// over HTTP must not use are left out.
pub(in crate::client) async fn read_tools(
    peer: &Arc<PeerRef>,
) -> Result<Vec<ToolInfo>, ClientError> {
    let mut tools = read_list(peer, Method::ToolsList, "tools").await?;
    if let Some(headers) = peer.tool_headers()
        && peer.server().await?.revision.is_modern()
    {
        headers.learn(&mut tools);
    }
    Ok(tools)
}
