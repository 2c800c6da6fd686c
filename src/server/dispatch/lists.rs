//! Requests without handler: lists, whose pages were encoded with the catalog or are written for a
//! caller, and the log level.

use corelane_protocol::eras::Method;
use corelane_protocol::error::Error;
use corelane_protocol::model;
use corelane_protocol::params::{PaginatedRequestParams, SetLevelRequestParams};

use super::admission::Request;
use super::{Dispatcher, write_request_error, write_result};
use crate::server::connection_state::PeerState;
use crate::server::reply_to::Outcome;

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

impl Dispatcher {
    /// Writes the requested page of a list.
    #[inline]
    pub(super) fn dispatch_list(&self, peer: &mut PeerState<'_>, request: &Request<'_>) -> Outcome {
        if self.auth.is_active() && self.differs_by_caller(request.method) {
            return self.write_permitted(peer, request);
        }
        let catalog = &self.catalog;
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

    /// Returns whether the entries of a list differ by caller.
    fn differs_by_caller(&self, list: Method) -> bool {
        self.auth.has_rules() || (list == Method::ToolsList && self.catalog.requires_scopes())
    }

    /// Writes the entries of a page that the caller may use.
    fn write_permitted(&self, peer: &mut PeerState<'_>, request: &Request<'_>) -> Outcome {
        let used_by = match request.method {
            Method::ToolsList => Method::ToolsCall,
            Method::PromptsList => Method::PromptsGet,
            _ => Method::ResourcesRead,
        };
        let cursor = match PaginatedRequestParams::read(request.params()) {
            Ok(PaginatedRequestParams { cursor }) => cursor,
            Err(error) => return write_request_error(peer, request, &error),
        };
        let principal = peer.origin.details.principal.or_else(|| peer.state.principal());
        let principal = principal.map(|principal| &**principal);
        let is_listed = |name: &str| self.auth.may_use(&self.catalog, principal, used_by, name);
        let (start, out) = (peer.outgoing.len(), &mut *peer.outgoing);
        model::begin_response(out, request.id());
        let page = (request.revision, cursor);
        match self.catalog.write_list_page(request.method, page, is_listed, out) {
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
}
