//! List requests: pages that were encoded with the catalog.

use super::admission::Request;
use super::{write_request_error, write_result};
use crate::protocol::eras::Method;
use crate::protocol::error::Error;
use crate::protocol::params::PaginatedRequestParams;
use crate::server::connection_state::PeerState;
use crate::server::reply_to::Outcome;
use crate::service::Catalog;

/// Writes the requested page of a list.
#[inline]
pub(super) fn dispatch_list(
    catalog: &Catalog,
    peer: &mut PeerState<'_>,
    request: &Request<'_>,
) -> Outcome {
    let revision = request.revision;
    let page = PaginatedRequestParams::read(request.params()).and_then(
        |PaginatedRequestParams { cursor }| match request.method {
            Method::ToolsList => catalog.tools_page(revision, cursor),
            Method::PromptsList => catalog.prompts_page(revision, cursor),
            Method::ResourcesList => catalog.resources_page(revision, cursor),
            Method::ResourcesTemplatesList => catalog.templates_page(revision, cursor),
            other => Err(Error::method_not_found(other.as_str())),
        },
    );
    match page {
        Ok(page) => write_result(peer, request, page),
        Err(error) => write_request_error(peer, request, &error),
    }
}
