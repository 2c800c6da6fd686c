//! Follows the lists and resources of one upstream, on the I/O thread of the gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::mem::take;
use std::pin::pin;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use corelane_client::{Change, ClientError, ClientErrorKind, Oneshot, SubscriptionFilter};
use crossbeam::channel::Sender;

use crate::gateway::lists::Lists;
use crate::gateway::pool::Pool;
use crate::server::UpstreamChange;

#[expect(clippy::disallowed_types, reason = "held for the few steps of one change")]
type Mutex<T> = std::sync::Mutex<T>;

/// Delay of the first repetition after a failure; each further one is twice as long.
const RETRY_MIN: Duration = Duration::from_millis(250);
/// Longest delay of a repetition.
pub const RETRY_MAX: Duration = Duration::from_secs(30);

/// The delay before the repetition after this number of failures.
pub fn retry_delay(failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    RETRY_MIN.saturating_mul(factor).min(RETRY_MAX)
}

/// Returns whether an upstream has no notifications to follow.
pub fn has_no_notifications(error: &ClientError) -> bool {
    matches!(error.kind(), ClientErrorKind::Unsupported | ClientErrorKind::Rpc { code: -32601 })
}

/// What is sent to the thread of the gateway; `index` is the position of an upstream.
///
/// Of each read and each subscription one event is on its way at most, and one
/// [`FollowerEvent::Changed`].
#[derive(Debug)]
pub enum FollowerEvent {
    /// Its lists were read.
    Lists { index: usize, lists: Box<Lists> },
    /// Its lists could not be read.
    Failed { index: usize, error: ClientError },
    /// It sends no more notifications, as it said or because of an error. `number` is that of the
    /// subscription.
    FollowEnded { index: usize, number: u64, error: Option<ClientError> },
    /// It sends no more notifications of a resource. `number` is that of the subscription.
    ResourceEnded { index: usize, uri: String, number: u64, error: Option<ClientError> },
    /// There is something to [take](FollowerEvents::take_changes).
    Changed,
    /// The server has ended.
    Stop,
}

/// The sender to the thread of the gateway; a clone sends to the same thread.
#[derive(Clone, Debug)]
pub struct FollowerEvents {
    sender: Sender<FollowerEvent>,
    changes: Arc<Mutex<PendingChanges>>,
}

/// Changes that the thread has not taken, each once, whatever sends them how often.
#[derive(Debug, Default)]
struct PendingChanges {
    /// [`FollowerEvent::Changed`] is on its way.
    is_sent: bool,
    changes: Changes,
    /// The number of shards that have subscribers of a resource.
    shards: BTreeMap<String, usize>,
}

/// Changes, each once.
#[derive(Debug, Default)]
pub struct Changes {
    /// Upstreams whose lists have changed.
    pub lists: BTreeSet<usize>,
    /// URIs of resources that have changed.
    pub resources: BTreeSet<String>,
    /// Whether a resource has subscribers.
    pub subscribed: BTreeMap<String, bool>,
    /// Changes of upstreams by operators.
    pub upstreams: BTreeMap<usize, UpstreamChange>,
    /// Upstreams whose changed tools operators have approved.
    pub approved: BTreeSet<usize>,
    /// Upstreams whose lists come from another connection.
    pub moved: BTreeSet<usize>,
}

impl FollowerEvents {
    /// Sends to the thread that receives what `sender` sends.
    pub fn new(sender: Sender<FollowerEvent>) -> Self {
        Self { sender, changes: Arc::default() }
    }

    /// Sends an event. Nothing happens if the thread has ended.
    pub fn send(&self, event: FollowerEvent) {
        self.sender.send(event).unwrap_or_default();
    }

    /// Records that the lists of an upstream have changed.
    pub fn record_lists(&self, index: usize) {
        self.record(|pending| pending.changes.lists.insert(index));
    }

    /// Records that a resource has changed.
    pub fn record_resource(&self, uri: &str) {
        self.record(|pending| pending.changes.resources.insert(uri.to_owned()));
    }

    /// Records that a shard has its first subscriber of a resource, or has lost its last one.
    pub fn record_subscribers(&self, uri: &str, has_subscribers: bool) {
        self.record(|pending| {
            let shards = pending.shards.entry(uri.to_owned()).or_default();
            *shards = if has_subscribers { *shards + 1 } else { shards.saturating_sub(1) };
            let is_subscribed = *shards > 0;
            if !is_subscribed {
                pending.shards.remove(uri);
            }
            pending.changes.subscribed.insert(uri.to_owned(), is_subscribed);
        });
    }

    /// Records a change of an upstream by an operator, which takes the place of an earlier one; a
    /// restart enables an upstream, too.
    pub fn record_change(&self, index: usize, change: UpstreamChange) {
        self.record(|pending| {
            if change == UpstreamChange::Approve {
                pending.changes.approved.insert(index);
                return;
            }
            let known = pending.changes.upstreams.entry(index).or_insert(change);
            if (*known, change) != (UpstreamChange::Restart, UpstreamChange::Enable) {
                *known = change;
            }
        });
    }

    /// Records that the lists of an upstream come from another connection.
    pub fn record_moved(&self, index: usize) {
        self.record(|pending| pending.changes.moved.insert(index));
    }

    /// Takes the changes.
    pub fn take_changes(&self) -> Changes {
        let mut pending = self.lock();
        pending.is_sent = false;
        take(&mut pending.changes)
    }

    fn record<T>(&self, change: impl FnOnce(&mut PendingChanges) -> T) {
        let mut pending = self.lock();
        change(&mut pending);
        let is_sent = std::mem::replace(&mut pending.is_sent, true);
        drop(pending);
        if !is_sent {
            self.send(FollowerEvent::Changed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingChanges> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the lists of an upstream, once.
pub async fn read_lists(pool: Arc<Pool>, index: usize, events: FollowerEvents) {
    let lists = async {
        let connection = pool.list_connection()?;
        connection.server().await?;
        Lists::read(&connection.client).await
    };
    events.send(match lists.await {
        Ok(lists) => FollowerEvent::Lists { index, lists: Box::new(lists) },
        Err(error) => FollowerEvent::Failed { index, error },
    });
}

/// What follows the lists of an upstream.
#[derive(Clone, Debug, Default)]
pub struct FollowedLists {
    /// The number of the subscription.
    pub number: u64,
    /// Ends the subscription when it is set.
    pub stop: Arc<Oneshot<()>>,
}

/// Follows the changes that an upstream notifies, until it is stopped or the upstream sends no
/// more. What it says of resources that were not asked for is ignored.
pub async fn follow(
    pool: Arc<Pool>,
    index: usize,
    FollowedLists { number, stop }: FollowedLists,
    events: FollowerEvents,
) {
    let changes = async {
        let connection = pool.list_connection()?;
        let mut subscription = connection.client.subscribe(&SubscriptionFilter::lists()).await?;
        while let Some(change) = subscription.next().await {
            // After a loss of notifications the lists may have changed.
            if !matches!(change?, Change::Task { .. } | Change::Resource { .. }) {
                events.record_lists(index);
            }
        }
        Ok::<(), ClientError>(())
    };
    if let Some(result) = until_stopped(&stop, changes).await {
        let error = result.err();
        events.send(FollowerEvent::FollowEnded { index, number, error });
    }
}

/// Runs `changes` to its end; `None` if it is stopped before.
async fn until_stopped<T>(stop: &Oneshot<()>, changes: impl Future<Output = T>) -> Option<T> {
    let mut changes = pin!(changes);
    poll_fn(|context| {
        if stop.poll_take(context).is_ready() {
            return Poll::Ready(None);
        }
        changes.as_mut().poll(context).map(Some)
    })
    .await
}

/// A resource that is followed at an upstream.
#[derive(Debug)]
pub struct FollowedResource {
    /// The position of the upstream.
    pub index: usize,
    /// The URI of the resource there.
    pub own: String,
    /// Its URI in the catalog.
    pub offered: String,
    /// The number of the subscription.
    pub number: u64,
    /// It was followed before, so that changes may have been missed.
    pub is_repeated: bool,
    /// Ends the subscription when it is set.
    pub stop: Arc<Oneshot<()>>,
}

/// Follows the changes of one resource, until it is stopped or the upstream sends no more.
pub async fn follow_resource(pool: Arc<Pool>, resource: FollowedResource, events: FollowerEvents) {
    let FollowedResource { index, own, offered: uri, number, is_repeated, stop } = resource;
    let changes = async {
        let connection = pool.list_connection()?;
        let filter = SubscriptionFilter::default().resource(own);
        let mut subscription = connection.client.subscribe(&filter).await?;
        if is_repeated {
            events.record_resource(&uri);
        }
        while let Some(change) = subscription.next().await {
            // After a loss of notifications it may have changed.
            if matches!(change?, Change::Resource { .. } | Change::Lost(_) | Change::Resubscribed) {
                events.record_resource(&uri);
            }
        }
        Ok::<(), ClientError>(())
    };
    if let Some(result) = until_stopped(&stop, changes).await {
        let error = result.err();
        events.send(FollowerEvent::ResourceEnded { index, uri: uri.clone(), number, error });
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::unbounded;

    use super::*;

    #[test]
    fn many_changes_are_one_event() {
        let (sender, received) = unbounded();
        let events = FollowerEvents::new(sender);
        for _ in 0..1_000 {
            events.record_lists(1);
            events.clone().record_resource("file:///a");
        }
        assert!(matches!(received.try_recv(), Ok(FollowerEvent::Changed)));
        assert!(received.try_recv().is_err());
        let Changes { lists, resources, subscribed, .. } = events.take_changes();
        assert_eq!((lists.len(), resources.len(), subscribed.len()), (1, 1, 0));
        events.record_lists(2);
        assert!(matches!(received.try_recv(), Ok(FollowerEvent::Changed)));
    }

    #[test]
    fn last_change_of_operator_counts() {
        use UpstreamChange::{Disable, Enable, Restart};
        let events = FollowerEvents::new(unbounded().0);
        for (changes, expected) in [
            ([Enable, Disable], Disable),
            ([Disable, Restart], Restart),
            ([Restart, Enable], Restart),
            ([Restart, Disable], Disable),
        ] {
            for change in changes {
                events.record_change(3, change);
            }
            assert_eq!(events.take_changes().upstreams, BTreeMap::from([(3, expected)]));
        }
    }

    #[test]
    fn resource_is_subscribed_while_shard_has_subscribers() {
        let events = FollowerEvents::new(unbounded().0);
        let changed = || events.take_changes().subscribed.into_iter().collect::<Vec<_>>();
        let is = |is_subscribed| vec![("file:///a".to_owned(), is_subscribed)];
        events.record_subscribers("file:///a", true);
        events.record_subscribers("file:///a", true);
        assert_eq!(changed(), is(true));
        events.record_subscribers("file:///a", false);
        assert_eq!(changed(), is(true));
        events.record_subscribers("file:///a", false);
        assert_eq!((changed(), changed()), (is(false), Vec::new()));
    }
}
