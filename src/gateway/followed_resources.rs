//! The resources that clients have subscribed to, each of which is followed at its upstream.
//!
//! Invariants: a resource is followed once while it has subscribers and an upstream is known for
//! it; if that sends no more, it is followed again after a delay, unless the upstream has no
//! notifications.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use corelane_base::time::Instant;
use corelane_client::Oneshot;

use crate::gateway::follower::{FollowedResource, RETRY_MAX, retry_delay};

/// The resources with subscribers.
#[derive(Default)]
pub struct FollowedResources {
    resources: BTreeMap<String, Resource>,
    /// Those that are followed again, by the time.
    due: BTreeSet<(Instant, String)>,
    /// The number of the last subscription.
    last_number: u64,
}

/// A resource with subscribers.
#[derive(Default)]
struct Resource {
    /// The subscription at the upstream; `None` while no upstream is known, or it has ended.
    subscription: Option<ResourceSubscription>,
    /// When it is followed again.
    due: Option<Instant>,
    /// Subscriptions that have ended, one after the other.
    ends: u32,
}

struct ResourceSubscription {
    number: u64,
    began: Instant,
    stop: Arc<Oneshot<()>>,
}

/// The place of a resource at an upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UpstreamResource<'u> {
    /// The position of the upstream.
    pub index: usize,
    /// The URI of the resource there.
    pub own: &'u str,
}

impl FollowedResources {
    /// Returns what is to be followed once a resource has subscribers. `place` is where it is, if
    /// its upstream is known.
    pub fn subscribe(
        &mut self,
        uri: &str,
        place: Option<UpstreamResource<'_>>,
        now: Instant,
    ) -> Option<FollowedResource> {
        let resource = self.resources.entry(uri.to_owned()).or_default();
        if resource.subscription.is_some() || resource.due.is_some() {
            return None;
        }
        self.begin(uri, place?, now)
    }

    /// Ends what follows a resource without subscribers.
    pub fn unsubscribe(&mut self, uri: &str) {
        let Some(resource) = self.resources.remove(uri) else { return };
        if let Some(due) = resource.due {
            self.due.remove(&(due, uri.to_owned()));
        }
        if let Some(subscription) = resource.subscription {
            subscription.stop.set(());
        }
    }

    /// Returns the resources that are not followed, although they have subscribers.
    pub fn without_upstream(&self) -> Vec<String> {
        let waiting =
            |resource: &Resource| resource.subscription.is_none() && resource.due.is_none();
        self.resources
            .iter()
            .filter(|(_, resource)| waiting(resource))
            .map(|(uri, _)| uri.clone())
            .collect()
    }

    /// Records that the upstream of a resource sends no more of it. It is followed again later,
    /// unless the upstream `has_none`.
    pub fn end(&mut self, uri: &str, number: u64, has_none: bool, now: Instant) {
        let Some(resource) = self.resources.get_mut(uri) else { return };
        let Some(ended) = resource.subscription.take_if(|it| it.number == number) else { return };
        if has_none {
            return;
        }
        if now.since(ended.began) > RETRY_MAX {
            resource.ends = 0;
        }
        let due = now.after(retry_delay(resource.ends));
        resource.ends += 1;
        resource.due = Some(due);
        self.due.insert((due, uri.to_owned()));
    }

    /// Takes the resources that are to be followed again by now.
    pub fn take_due(&mut self, now: Instant) -> Vec<String> {
        let mut taken = Vec::new();
        while let Some((due, _)) = self.due.first()
            && *due <= now
            && let Some((_, uri)) = self.due.pop_first()
        {
            if let Some(resource) = self.resources.get_mut(&uri) {
                resource.due = None;
            }
            taken.push(uri);
        }
        taken
    }

    /// Returns when the next resource is to be followed again.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    fn begin(
        &mut self,
        uri: &str,
        place: UpstreamResource<'_>,
        now: Instant,
    ) -> Option<FollowedResource> {
        let resource = self.resources.get_mut(uri)?;
        self.last_number += 1;
        let (number, stop) = (self.last_number, Arc::new(Oneshot::new()));
        let subscription = ResourceSubscription { number, began: now, stop: Arc::clone(&stop) };
        resource.subscription = Some(subscription);
        Some(FollowedResource {
            index: place.index,
            own: place.own.to_owned(),
            offered: uri.to_owned(),
            number,
            is_repeated: resource.ends > 0,
            stop,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "file:///a";
    const PLACE: UpstreamResource<'_> = UpstreamResource { index: 0, own: "file:///own" };

    fn at(ms: u64) -> Instant {
        Instant::from_milliseconds(ms)
    }

    #[test]
    fn resource_is_followed_once() {
        let mut followed = FollowedResources::default();
        assert!(followed.subscribe(URI, None, at(0)).is_none());
        assert_eq!(followed.without_upstream(), [URI]);
        let first = followed.subscribe(URI, Some(PLACE), at(1)).unwrap();
        assert_eq!((&*first.own, &*first.offered, first.is_repeated), (PLACE.own, URI, false));
        assert!(followed.subscribe(URI, Some(PLACE), at(2)).is_none());
        assert!(followed.without_upstream().is_empty());
        followed.unsubscribe(URI);
        assert!(followed.subscribe(URI, Some(PLACE), at(3)).is_some());
    }

    #[test]
    fn ended_resource_is_followed_again_later() {
        let mut followed = FollowedResources::default();
        let mut begun = followed.subscribe(URI, Some(PLACE), at(0)).unwrap();
        for delay in [250, 500, 1_000] {
            // That of a subscription before says nothing of this one.
            followed.end(URI, begun.number - 1, false, at(0));
            assert_eq!(followed.next_due(), None);
            followed.end(URI, begun.number, false, at(0));
            assert_eq!(followed.next_due(), Some(at(delay)));
            assert!(followed.subscribe(URI, Some(PLACE), at(1)).is_none());
            assert!(followed.take_due(at(delay - 1)).is_empty());
            assert_eq!(followed.take_due(at(delay)), [URI]);
            begun = followed.subscribe(URI, Some(PLACE), at(0)).unwrap();
            assert!(begun.is_repeated);
        }
        followed.end(URI, begun.number, false, at(60_000));
        assert_eq!(followed.next_due(), Some(at(60_250)));
    }

    #[test]
    fn ended_resource_without_subscribers_is_forgotten() {
        let mut followed = FollowedResources::default();
        let begun = followed.subscribe(URI, Some(PLACE), at(0)).unwrap();
        followed.end(URI, begun.number, false, at(0));
        followed.unsubscribe(URI);
        assert_eq!(followed.next_due(), None);
        assert!(followed.take_due(at(1_000)).is_empty());
    }

    #[test]
    fn upstream_without_notifications_is_not_asked_again() {
        let mut followed = FollowedResources::default();
        let begun = followed.subscribe(URI, Some(PLACE), at(0)).unwrap();
        followed.end(URI, begun.number, true, at(0));
        assert_eq!(
            (followed.next_due(), followed.without_upstream()),
            (None, vec![URI.to_owned()])
        );
    }
}
