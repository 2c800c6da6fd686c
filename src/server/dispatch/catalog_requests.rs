//! Requests about the catalog that need no handler: lists, whose pages were encoded with the
//! catalog or are written for a caller, and subscriptions to changes; and the log level.
//!
//! Subscriptions are streams of modern clients, and resource subscriptions of legacy sessions.
//! Invariants: a stream is acknowledged before any notification; it notifies of exactly what was
//! acknowledged; a rejected subscription leaves nothing behind.

use std::sync::Arc;

use corelane_base::slab::Key;
use corelane_protocol::eras::{ClientCapabilities, Method};
use corelane_protocol::error::Error;
use corelane_protocol::in_flight::RequestKey;
use corelane_protocol::model;
use corelane_protocol::params::{
    GetSkillRequestParams, PaginatedRequestParams, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, SubscriptionsListenRequestParams,
};

use super::admission::Request;
use super::{Dispatcher, MessageContext, write_request_error, write_result};
use crate::server::connection_state::{ConnectionState, PeerState};
use crate::server::outbox::Outbox;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::subscriptions::{CatalogList, CatalogLists, GrantedFilter, Subscriber};
use crate::service::{Catalog, Features};

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
                Method::SkillsList => catalog.skills_page(revision, cursor),
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
        let (method, revision) = (request.method, request.revision);
        match self.catalog.write_list_page(method, revision, cursor, is_listed, out) {
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

impl Dispatcher {
    /// `skills/get`: the entry of one skill. `resources/directory/read`: what is in a folder of
    /// one.
    ///
    /// Source: SEP-2640.
    pub(super) fn write_skill(&self, peer: &mut PeerState<'_>, request: &Request<'_>) -> Outcome {
        // What a caller may read is for this caller alone.
        let is_public = !(self.auth.is_active() && self.differs_by_caller(request.method));
        let (catalog, revision) = (&self.catalog, request.revision);
        let mut result = Vec::new();
        let uri = GetSkillRequestParams::read(request.params()).map(|params| params.uri);
        let written = uri.and_then(|uri| {
            if request.method == Method::SkillsGet {
                return catalog.write_skill(revision, uri, is_public, &mut result);
            }
            let principal = peer.origin.details.principal.or_else(|| peer.state.principal());
            let principal = principal.map(|principal| &**principal);
            let is_listed = |uri: &str| {
                is_public || self.auth.may_use(catalog, principal, Method::ResourcesRead, uri)
            };
            catalog.write_directory(revision, uri, is_public, is_listed, &mut result)
        });
        match written {
            Ok(()) => write_result(peer, request, &result),
            Err(error) => write_request_error(peer, request, &error),
        }
    }
}

impl Dispatcher {
    /// `subscriptions/listen`: a stream that is acknowledged now and completed at its end. Its id
    /// is in flight, but it has no deadline and does not count against the in-flight limit.
    ///
    /// Source: 2026-07-28, basic/patterns/subscriptions.
    pub(super) fn listen(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Outcome {
        match self.open_stream(ctx.reply_to, peer, request) {
            Ok(()) => Outcome::Notification,
            Err(error) => write_request_error(peer, request, &error),
        }
    }

    fn open_stream(
        &mut self,
        reply_to: ReplyTo,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<(), Error> {
        let id = request.id();
        let filter = SubscriptionsListenRequestParams::read(id, request.params())?.filter;
        let needed = ClientCapabilities::EXTENSION_TASKS;
        if !filter.task_ids.is_empty() && !request.capabilities.contains(needed) {
            return Err(Error::missing_capability(needed));
        }
        let granted = self.granted_filter(filter, peer.outbox);
        let lists = CatalogLists::of(|list| match list {
            CatalogList::Prompts => granted.prompts_list_changed,
            CatalogList::Resources => granted.resources_list_changed,
            CatalogList::Tools => granted.tools_list_changed,
        });
        let principal = peer.principal().map(Arc::clone);
        let (uris, task_ids) = (&granted.resource_subscriptions[..], &granted.task_ids[..]);
        let client = self.rate.client_of(peer, reply_to.peer_id);
        let by = Subscriber { peer: reply_to.peer_id, client, principal: principal.as_ref() };
        let ConnectionState { subscriptions: subscriber, in_flight, .. } = &mut *peer.state;
        let filter = GrantedFilter { lists, uris, task_ids };
        let opened = self.subscriptions.open_stream(by, subscriber, id, filter);
        peer.outbox.counters.subscriptions.refused += u64::from(opened.is_err());
        // Checked for duplicates at validation.
        in_flight.insert(id, reply_to.exchange(), RequestKey::Stream(opened?))?;
        peer.outbox.counters.subscriptions.opened += 1;
        peer.pending_work.has_open_stream = true;
        model::write_subscriptions_acknowledged(peer.outgoing, id, &granted);
        for task in &granted.task_ids {
            self.deferred.tasks.watch(task, peer.outbox);
        }
        Ok(())
    }

    /// Returns the part of a filter that this server offers; its features never change.
    fn granted_filter<'a>(
        &self,
        filter: SubscriptionFilter<'a>,
        outbox: &mut Outbox,
    ) -> SubscriptionFilter<'a> {
        let has_tasks = self.catalog.has_features(Features::TASKS);
        // The ids of a slow shard are left out of the acknowledgement.
        let mut task_ids = filter.task_ids;
        task_ids.retain(|name| has_tasks && self.deferred.tasks.is_watchable(name, outbox));
        let offers_subscriptions = self.catalog.has_features(Features::SUBSCRIPTIONS);
        SubscriptionFilter {
            tools_list_changed: filter.tools_list_changed
                && notifies_list_changed(&self.catalog, CatalogList::Tools),
            prompts_list_changed: filter.prompts_list_changed
                && notifies_list_changed(&self.catalog, CatalogList::Prompts),
            resources_list_changed: filter.resources_list_changed
                && notifies_list_changed(&self.catalog, CatalogList::Resources),
            resource_subscriptions: if offers_subscriptions {
                filter.resource_subscriptions
            } else {
                Vec::new()
            },
            task_ids,
        }
    }

    /// Ends a cancelled stream, without a response.
    pub(super) fn end_stream(&mut self, peer: &mut PeerState<'_>, key: Key) {
        let subscriber = &mut peer.state.subscriptions;
        if self.subscriptions.close_stream(subscriber, key).is_some() {
            peer.outbox.counters.subscriptions.closed += 1;
            peer.pending_work.has_open_stream = subscriber.has_streams();
        }
    }

    /// `resources/subscribe`: repeating it changes nothing.
    ///
    /// Source: 2025-11-25, server/resources, "Subscriptions".
    pub(super) fn subscribe(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Outcome {
        let done = self.add_subscription(ctx.reply_to.peer_id, peer, request);
        write_empty_result(peer, request, done)
    }

    fn add_subscription(
        &mut self,
        peer_id: PeerId,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<(), Error> {
        let uri = SubscribeRequestParams::read(request.params())?.uri;
        if !self.catalog.has_resource(uri, request.revision) {
            return Err(Error::resource_not_found(uri, request.revision));
        }
        let before = self.subscriptions.len();
        let client = self.rate.client_of(peer, peer_id);
        let principal = peer.principal().map(Arc::clone);
        let by = Subscriber { peer: peer_id, client, principal: principal.as_ref() };
        let noted = self.subscriptions.subscribe(by, &mut peer.state.subscriptions, uri);
        peer.outbox.counters.subscriptions.refused += u64::from(noted.is_err());
        peer.outbox.counters.subscriptions.opened += (self.subscriptions.len() - before) as u64;
        noted?;
        peer.pending_work.has_open_stream = true;
        Ok(())
    }

    /// `resources/unsubscribe`: succeeds also without a subscription.
    pub(super) fn unsubscribe(
        &mut self,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Outcome {
        let done =
            SubscribeRequestParams::read(request.params()).map(|SubscribeRequestParams { uri }| {
                let subscriber = &mut peer.state.subscriptions;
                let before = self.subscriptions.len();
                self.subscriptions.unsubscribe(subscriber, uri);
                peer.outbox.counters.subscriptions.closed +=
                    (before - self.subscriptions.len()) as u64;
                peer.pending_work.has_open_stream = subscriber.has_streams();
            });
        write_empty_result(peer, request, done)
    }
}

/// Returns whether the server sends `list_changed` notifications for `list`.
pub fn notifies_list_changed(catalog: &Catalog, list: CatalogList) -> bool {
    let feature = match list {
        CatalogList::Prompts => Features::PROMPTS,
        CatalogList::Resources => Features::RESOURCES,
        CatalogList::Tools => Features::TOOLS,
    };
    catalog.has_features(Features::LIST_CHANGED | feature)
}

fn write_empty_result(
    peer: &mut PeerState<'_>,
    request: &Request<'_>,
    done: Result<(), Error>,
) -> Outcome {
    match done {
        Ok(()) => write_result(peer, request, b"{}"),
        Err(error) => write_request_error(peer, request, &error),
    }
}
