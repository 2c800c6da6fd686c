//! Notifications of changes that a client has asked for (`subscriptions/listen`; its parts up to
//! 2025-11-25).
//!
//! MCP 2026-07-28 `basic/patterns/subscriptions`.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{ClientError, ClientErrorKind};
use crate::io::PeerRef;
use crate::request::{ListItem, Pages, ResponseFuture};
use crate::results::{PromptInfo, ResourceInfo, ResourceTemplateInfo, ToolInfo};
use crate::session::ReceivedMessage;

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// Notifications that wait for [`Subscription::next`]; further ones are counted as lost.
const MESSAGES_MAX: usize = 1_024;

/// Which changes a client wants to be notified of.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriptionFilter {
    /// Changes of the list of tools.
    #[serde(skip_serializing_if = "is_false")]
    pub tools_list_changed: bool,
    /// Changes of the list of prompts.
    #[serde(skip_serializing_if = "is_false")]
    pub prompts_list_changed: bool,
    /// Changes of the list of resources.
    #[serde(skip_serializing_if = "is_false")]
    pub resources_list_changed: bool,
    /// URIs of resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_subscriptions: Vec<String>,
    /// Ids of tasks (2026-07-28). Calls that wait for them learn of their end at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature of serde")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl SubscriptionFilter {
    /// Returns the filter of all lists.
    pub fn lists() -> Self {
        Self {
            tools_list_changed: true,
            prompts_list_changed: true,
            resources_list_changed: true,
            ..Self::default()
        }
    }

    /// Adds a resource.
    #[must_use]
    pub fn resource(mut self, uri: impl Into<String>) -> Self {
        self.resource_subscriptions.push(uri.into());
        self
    }

    /// Adds a task.
    #[must_use]
    pub fn task(mut self, id: impl Into<String>) -> Self {
        self.task_ids.push(id.into());
        self
    }
}

/// A change that a server has notified.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools has changed.
    ToolList,
    /// The list of prompts has changed.
    PromptList,
    /// The list of resources has changed.
    ResourceList,
    /// A resource has changed.
    Resource {
        /// Its URI, or that of a part of it.
        uri: String,
    },
    /// A task has another status.
    Task {
        /// Its id.
        id: String,
    },
    /// The connection was lost, and the subscription was established again: changes may have gone
    /// unnoticed, so read again what matters. [`Subscription::granted`] may have changed.
    Resubscribed,
    /// As many notifications were lost, because they were not received in time: read again what
    /// matters.
    Lost(u64),
}

/// The notifications of one subscription. Dropping it ends the subscription.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    queue: Arc<SubscriptionQueue>,
    /// Ends with the subscription.
    response: Option<ResponseFuture<Map<String, Value>>>,
    granted: SubscriptionFilter,
}

impl Subscription {
    /// Waits until the server has acknowledged the subscription.
    pub(super) async fn open(
        queue: Arc<SubscriptionQueue>,
        response: ResponseFuture<Map<String, Value>>,
    ) -> Result<Self, ClientError> {
        let granted = SubscriptionFilter::default();
        let mut subscription = Self { queue, response: Some(response), granted };
        match subscription.next_item().await {
            Some(Ok(Item::Acknowledged(granted))) => Ok(Self { granted, ..subscription }),
            Some(Err(error)) => Err(error),
            Some(Ok(Item::Change(_) | Item::Ignored)) | None => {
                let text = "the server did not acknowledge the subscription";
                Err(ClientError::new(ClientErrorKind::Protocol, text))
            }
        }
    }

    /// Returns what the server notifies of: what was asked for, or less.
    pub const fn granted(&self) -> &SubscriptionFilter {
        &self.granted
    }

    /// Returns the next change, or `None` after the server has ended the subscription. After the
    /// loss of the connection the client subscribes again, as
    /// [`ReconnectOptions`](crate::ReconnectOptions) say.
    ///
    /// # Errors
    ///
    /// Those of the last attempt, once, if the client does not connect again; those of a request if
    /// the server refuses the subscription.
    pub async fn next(&mut self) -> Option<Result<Change, ClientError>> {
        loop {
            match self.next_item().await? {
                Ok(Item::Change(change)) => return Some(Ok(change)),
                Ok(Item::Acknowledged(granted)) => {
                    self.granted = granted;
                    return Some(Ok(Change::Resubscribed));
                }
                Ok(Item::Ignored) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Forgets the changes that were received and not returned.
    fn discard_received(&self) {
        self.queue.clear();
    }

    async fn next_item(&mut self) -> Option<Result<Item, ClientError>> {
        poll_fn(|context| self.poll_item(context)).await
    }

    fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Item, ClientError>>> {
        if let Poll::Ready(item) = self.queue.poll_pop(context) {
            return Poll::Ready(Some(Ok(item)));
        }
        let Some(response) = &mut self.response else { return Poll::Ready(None) };
        let Poll::Ready(outcome) = Pin::new(response).poll(context) else { return Poll::Pending };
        self.response = None;
        // What arrived before the end precedes it.
        if let Poll::Ready(item) = self.queue.poll_pop(context) {
            return Poll::Ready(Some(Ok(item)));
        }
        Poll::Ready(outcome.err().map(Err))
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("Subscription");
        text.field("granted", &self.granted).finish_non_exhaustive()
    }
}

/// A message of a subscription.
#[derive(Debug)]
enum Item {
    /// The first message: what the server notifies of.
    Acknowledged(SubscriptionFilter),
    Change(Change),
    /// A notification that this client does not know.
    Ignored,
}

/// The messages that wait, from the I/O thread to the task that receives them.
#[derive(Debug, Default)]
pub(super) struct SubscriptionQueue(Mutex<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    messages: VecDeque<ReceivedMessage>,
    lost: u64,
    waker: Option<Waker>,
}

impl SubscriptionQueue {
    /// Adds a message and wakes the task.
    pub(super) fn push(&self, message: ReceivedMessage) {
        let mut state = self.lock();
        if state.messages.len() >= MESSAGES_MAX {
            state.lost += 1;
            return;
        }
        state.messages.push_back(message);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn clear(&self) {
        let mut state = self.lock();
        state.messages.clear();
        state.lost = 0;
    }

    fn poll_pop(&self, context: &Context<'_>) -> Poll<Item> {
        let mut state = self.lock();
        if let Some(message) = state.messages.pop_front() {
            drop(state);
            return Poll::Ready(read_item(&message));
        }
        if state.lost > 0 {
            return Poll::Ready(Item::Change(Change::Lost(std::mem::take(&mut state.lost))));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a notification.
fn read_item(message: &ReceivedMessage) -> Item {
    #[derive(Deserialize)]
    struct Notification {
        method: String,
        #[serde(default)]
        params: Params,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Params {
        uri: Option<String>,
        task_id: Option<String>,
        notifications: SubscriptionFilter,
    }
    let Ok(notification) = serde_json::from_slice::<Notification>(message.as_bytes()) else {
        return Item::Ignored;
    };
    let Notification { method, params } = notification;
    let change = match (method.as_str(), params.uri.or(params.task_id)) {
        ("notifications/subscriptions/acknowledged", _) => {
            return Item::Acknowledged(params.notifications);
        }
        ("notifications/tools/list_changed", _) => Change::ToolList,
        ("notifications/prompts/list_changed", _) => Change::PromptList,
        ("notifications/resources/list_changed", _) => Change::ResourceList,
        ("notifications/resources/updated", Some(uri)) => Change::Resource { uri },
        ("notifications/tasks", Some(id)) => Change::Task { id },
        _ => return Item::Ignored,
    };
    Item::Change(change)
}

/// An item of a list whose changes servers notify of.
pub trait WatchedItem: ListItem {
    /// Returns the filter of the notifications.
    #[doc(hidden)]
    fn change_filter() -> SubscriptionFilter;
}

impl WatchedItem for ToolInfo {
    fn change_filter() -> SubscriptionFilter {
        SubscriptionFilter { tools_list_changed: true, ..SubscriptionFilter::default() }
    }
}

impl WatchedItem for PromptInfo {
    fn change_filter() -> SubscriptionFilter {
        SubscriptionFilter { prompts_list_changed: true, ..SubscriptionFilter::default() }
    }
}

impl WatchedItem for ResourceInfo {
    fn change_filter() -> SubscriptionFilter {
        SubscriptionFilter { resources_list_changed: true, ..SubscriptionFilter::default() }
    }
}

impl WatchedItem for ResourceTemplateInfo {
    fn change_filter() -> SubscriptionFilter {
        ResourceInfo::change_filter()
    }
}

/// The states of a list: the first one, and one after each change. Dropping it ends the
/// subscription.
#[must_use = "dropping it ends the subscription"]
pub struct ListWatch<T> {
    peer: Arc<PeerRef>,
    subscription: Subscription,
    /// The list has changed since it was read.
    is_stale: bool,
    item: std::marker::PhantomData<fn() -> T>,
}

impl<T: WatchedItem> ListWatch<T> {
    pub(crate) fn new(peer: Arc<PeerRef>, subscription: Subscription) -> Self {
        Self { peer, subscription, is_stale: true, item: std::marker::PhantomData }
    }

    /// Returns the list: at once the first time, and then after the next change. Changes that
    /// follow each other are one. Returns `None` after the server has ended the subscription.
    ///
    /// # Errors
    ///
    /// Those of a request, after which the list is read again, and of [`Subscription::next`].
    pub async fn next(&mut self) -> Option<Result<Vec<T>, ClientError>> {
        while !self.is_stale {
            match self.subscription.next().await? {
                Ok(Change::Resource { .. } | Change::Task { .. }) => {}
                Ok(_) => self.is_stale = true,
                Err(error) => return Some(Err(error)),
            }
        }
        self.subscription.discard_received();
        let list = Pages::<T>::new(Arc::clone(&self.peer)).fresh().collect().await;
        self.is_stale = list.is_err();
        Some(list)
    }
}

impl<T> fmt::Debug for ListWatch<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("ListWatch");
        text.field("subscription", &self.subscription).finish_non_exhaustive()
    }
}
