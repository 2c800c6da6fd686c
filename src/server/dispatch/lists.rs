//! Requests without handler: lists, whose pages were encoded with the catalog or are written for a
//! caller, and the log level.

use super::admission::Request;
use super::{write_request_error, write_result};
use crate::protocol::eras::Method;
use crate::protocol::error::Error;
use crate::protocol::model;
use crate::protocol::params::{PaginatedRequestParams, SetLevelRequestParams};
use crate::server::auth::Authentication;
use crate::server::connection_state::PeerState;
use crate::server::reply_to::Outcome;
use crate::service::Catalog;

/// `logging/setLevel`: also applies to calls in flight.
pub(super) fn set_log_level(peer: &mut PeerState<'_>, request: &Request<'_>) -> Outcome {
    match SetLevelRequestParams::read(request.params()) {
        Ok(SetLevelRequestParams { level }) => {
            peer.state.log_level = level;
            write_result(peer, request, b"{}")
        }
        Err(error) => write_request_error(peer, request, &error),
    }
}

/// Writes the requested page of a list.
#[inline]
pub(super) fn dispatch_list(
    (catalog, auth): (&Catalog, &Authentication),
    peer: &mut PeerState<'_>,
    request: &Request<'_>,
) -> Outcome {
    if auth.is_active() && differs_by_caller(catalog, auth, request.method) {
        return write_permitted(catalog, auth, peer, request);
    }
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

fn differs_by_caller(catalog: &Catalog, auth: &Authentication, list: Method) -> bool {
    auth.has_rules() || (list == Method::ToolsList && catalog.requires_scopes())
}

/// Writes the entries of a page that the caller may use.
fn write_permitted(
    catalog: &Catalog,
    auth: &Authentication,
    peer: &mut PeerState<'_>,
    request: &Request<'_>,
) -> Outcome {
    let used_by = match request.method {
        Method::ToolsList => Method::ToolsCall,
        Method::PromptsList => Method::PromptsGet,
        _ => Method::ResourcesRead,
    };
    let cursor = match PaginatedRequestParams::read(request.params()) {
        Ok(PaginatedRequestParams { cursor }) => cursor,
        Err(error) => return write_request_error(peer, request, &error),
    };
    let principal = peer.origin.principal.or_else(|| peer.state.principal());
    let principal = principal.map(|principal| &**principal);
    let is_listed = |name: &str| auth.may_use(catalog, principal, (used_by, name));
    let (start, out) = (peer.outgoing.len(), &mut *peer.outgoing);
    model::begin_response(out, request.id());
    let page = (request.revision, cursor);
    match catalog.write_list_page(request.method, page, is_listed, out) {
        Ok(()) => {
            model::end_response(out);
            Outcome::Response
        }
        Err(error) => {
            out.truncate(start);
            write_request_error(peer, request, &error)
        }
    }
}
