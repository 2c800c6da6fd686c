//! Subscriptions of legacy sessions. Their servers notify of lists unasked, and of resources after
//! `resources/subscribe`; the session itself answers `subscriptions/listen`, so that callers see
//! the same in every revision.
//!
//! Invariants: a subscription is acknowledged once, after the server has answered for each of its
//! resources and notifications can arrive, or five seconds later; a resource is unsubscribed from
//! with its last subscription.
//!
//! MCP 2025-11-25 `server/resources`, "Subscriptions", and `…/list_changed` of each list.

use std::collections::BTreeMap;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_protocol::eras::Method;
use corelane_protocol::json::{Value, write};
use corelane_protocol::model::ServerCapabilities;
use corelane_protocol::uri;
use serde::{Deserialize, Serialize};

use super::calls::Call;
use super::context::SessionContext;
use super::event::{MessageSink, ReceivedMessage, SessionEvent};
use super::request::CallRequest;
use super::side_requests::{self, SideRequest};
use super::{Phase, Session};
use crate::error::ClientError;

/// Time that a server has to answer for the resources of a subscription, and to open the stream
/// that its notifications arrive on.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The open subscriptions, by the ids of their calls.
#[derive(Debug)]
pub(super) struct SubscriptionTable<T>(BTreeMap<u64, LegacySubscription<T>>);

#[derive(Debug)]
struct LegacySubscription<T> {
    call: Call<T>,
    /// What the server notifies of.
    filter: ListenFilter,
    /// Resources for which the server has not answered.
    unanswered: usize,
    /// When it is acknowledged even if nothing can be received yet; `None` once it is.
    acknowledge_by: Option<Instant>,
}

impl<T> LegacySubscription<T> {
    /// Returns whether it is to be acknowledged.
    fn is_ready(&self, can_receive: bool, now: Instant) -> bool {
        let may_wait = |by: Instant| now < by && (!can_receive || self.unanswered > 0);
        self.acknowledge_by.is_some_and(|by| !may_wait(by))
    }
}

impl<T> SubscriptionTable<T> {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns when [`acknowledge`] must be called at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.values().filter_map(|subscription| subscription.acknowledge_by).min()
    }

    /// Takes all calls, in order.
    pub(super) fn take_all(&mut self) -> Vec<Call<T>> {
        let open = std::mem::take(&mut self.0);
        open.into_values().map(|subscription| subscription.call).collect()
    }

    fn has_resource(&self, uri: &str) -> bool {
        self.0.values().any(|open| open.filter.resources.iter().any(|other| &**other == uri))
    }
}

/// Opens a subscription.
pub(super) fn open<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    call: Call<T>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let Phase::Ready(server) = &session.phase else { return };
    let filter = ListenFilter::read(&call.request.params).granted_by(&server.capabilities);
    let (id, uris) = (call.first_id, filter.resources.clone());
    let (unanswered, acknowledge_by) = (uris.len(), Some(ctx.now.after(ANSWER_TIMEOUT)));
    let subscription = LegacySubscription { call, filter, unanswered, acknowledge_by };
    session.subscriptions.0.insert(id, subscription);
    for uri in uris {
        let request = request(Method::ResourcesSubscribe, &uri);
        side_requests::send(session, &request, SideRequest::Subscribe { call: id, uri }, ctx);
    }
    ctx.sink.request_notifications(session.revision());
    acknowledge(session, ctx);
}

/// Fails all subscriptions: their notifications cannot arrive because of `error`.
pub(super) fn fail_all<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    error: &ClientError,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let ids: Vec<u64> = session.subscriptions.0.keys().copied().collect();
    for id in ids {
        let Some(call) = close(session, id, ctx) else { continue };
        ctx.events.push(SessionEvent::Completed { token: call.token, result: Err(error.clone()) });
    }
}

/// Handles the answer for a resource of a subscription.
pub(super) fn handle_answer<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    call: u64,
    uri: &str,
    is_refused: bool,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let Some(subscription) = session.subscriptions.0.get_mut(&call) else { return };
    subscription.unanswered = subscription.unanswered.saturating_sub(1);
    if is_refused {
        subscription.filter.resources.retain(|other| &**other != uri);
    }
    acknowledge(session, ctx);
}

/// Reports what the server notifies of, for subscriptions to which the server has answered for all
/// resources, once notifications can arrive.
pub(super) fn acknowledge<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    acknowledge_ready(session, ctx.sink.receives_notifications(), ctx);
}

/// As [`acknowledge`]; notifications can arrive or not.
fn acknowledge_ready<T: Clone, S>(
    session: &mut Session<T>,
    can_receive: bool,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let revision = session.revision();
    for subscription in session.subscriptions.0.values_mut() {
        if !subscription.is_ready(can_receive, ctx.now) {
            continue;
        }
        subscription.acknowledge_by = None;
        let mut text = br#"{"jsonrpc":"2.0","method":"#.to_vec();
        write::string(&mut text, "notifications/subscriptions/acknowledged");
        text.extend_from_slice(br#","params":{"notifications":"#);
        subscription.filter.write(&mut text);
        text.extend_from_slice(b"}}");
        let message = ReceivedMessage::new(text, revision, false);
        let token = subscription.call.token.clone();
        ctx.events.push(SessionEvent::Subscription { token, message });
    }
}

/// Closes a subscription and returns its call.
pub(super) fn close<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    call: u64,
    ctx: &mut SessionContext<'_, T, S>,
) -> Option<Call<T>> {
    let LegacySubscription { call, filter, .. } = session.subscriptions.0.remove(&call)?;
    for uri in filter.resources {
        if !session.subscriptions.has_resource(&uri) {
            let request = request(Method::ResourcesUnsubscribe, &uri);
            side_requests::send(session, &request, SideRequest::Ignored, ctx);
        }
    }
    Some(call)
}

/// Opens the subscriptions again, in a new session with the same server. Each is acknowledged
/// again, since changes may have gone unnoticed.
pub(super) fn resume<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    for call in session.subscriptions.take_all() {
        open(session, call, ctx);
    }
}

/// Passes a notification to the subscriptions that want it. The acknowledgement precedes it; what
/// arrives before the server has answered for the resources is not passed on.
pub(super) fn handle_notification<T: Clone, S>(
    session: &mut Session<T>,
    method: &str,
    params: Option<Value<'_>>,
    message: &ReceivedMessage,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let uri = params.and_then(Value::as_object).and_then(|params| params.find("uri"));
    let uri = uri.and_then(Value::as_str);
    acknowledge_ready(session, true, ctx);
    for subscription in session.subscriptions.0.values() {
        if subscription.acknowledge_by.is_none() && subscription.filter.accepts(method, uri) {
            let (token, message) = (subscription.call.token.clone(), message.clone());
            ctx.events.push(SessionEvent::Subscription { token, message });
        }
    }
}

fn request(method: Method, uri: &str) -> CallRequest {
    let mut params = b"{\"uri\":".to_vec();
    write::string(&mut params, uri);
    params.push(b'}');
    CallRequest { name: Some(uri.into()), params, ..CallRequest::new(method) }
}

/// The member `notifications` of `subscriptions/listen`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct ListenFilter {
    #[serde(rename = "toolsListChanged")]
    tools: bool,
    #[serde(rename = "promptsListChanged")]
    prompts: bool,
    #[serde(rename = "resourcesListChanged")]
    resource_list: bool,
    #[serde(rename = "resourceSubscriptions")]
    resources: Vec<Box<str>>,
}

impl ListenFilter {
    /// Reads the params of `subscriptions/listen`.
    fn read(params: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Params {
            notifications: ListenFilter,
        }
        serde_json::from_slice::<Params>(params).unwrap_or_default().notifications
    }

    /// Returns the part that a server with these capabilities notifies of.
    fn granted_by(mut self, declared: &ServerCapabilities) -> Self {
        self.tools &= declared.tools.is_some_and(|tools| tools.list_changed);
        self.prompts &= declared.prompts.is_some_and(|prompts| prompts.list_changed);
        self.resource_list &= declared.resources.is_some_and(|it| it.list_changed);
        if !declared.resources.is_some_and(|resources| resources.subscribe) {
            self.resources.clear();
        }
        self.resources.sort_unstable();
        self.resources.dedup();
        self
    }

    /// Appends the filter as JSON.
    fn write(&self, out: &mut Vec<u8>) {
        match serde_json::to_value(self) {
            Ok(value) => write::json(out, &value),
            Err(_) => out.extend_from_slice(b"{}"),
        }
    }

    /// Returns whether a notification is wanted. `uri` may be that of a part of a resource.
    fn accepts(&self, method: &str, uri: Option<&str>) -> bool {
        match method {
            "notifications/tools/list_changed" => self.tools,
            "notifications/prompts/list_changed" => self.prompts,
            "notifications/resources/list_changed" => self.resource_list,
            "notifications/resources/updated" => {
                let uri = uri.unwrap_or_default();
                self.resources.iter().any(|resource| uri::is_part_of(uri, resource))
            }
            _ => false,
        }
    }
}
