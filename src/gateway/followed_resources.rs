//! The resources that clients have subscribed to, each of which is followed at its upstream.
//!
//! Invariants: a resource is followed once while it has subscribers and an upstream is known for
//! it; if that sends no more, it is followed again after a delay, unless the upstream has no
//! notifications.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use corelane_base::time::Instant;
use corelane_client::Oneshot;

use crate::gateway::entries::Source;
use crate::gateway::follower::{FollowedResource, RETRY_MAX, retry_delay};
use crate::gateway::lists::Lists;

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
    /// It was followed before, so that changes may have been missed.
    was_followed: bool,
}

struct ResourceSubscription {
    /// The position of the upstream.
    index: usize,
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

/// Returns the upstream of a resource that can be subscribed to, and its URI there: the first one
/// that lists it, the one whose name precedes it, or the first one with templates.
pub fn place_of<'u>(sources: &[Source<'_>], uri: &'u str) -> Option<UpstreamResource<'u>> {
    let candidates = || {
        sources.iter().enumerate().filter_map(|(index, source)| {
            let lists = source.lists.filter(|lists| {
                lists.server.capabilities.resources.is_some_and(|it| it.subscribe)
            })?;
            Some((index, source.upstream, lists))
        })
    };
    let listed = candidates().find(|(_, _, lists)| lists_resource(lists, uri));
    let found = listed.map(|(index, ..)| (index, uri)).or_else(|| {
        candidates().find_map(|(index, upstream, lists)| {
            let own = uri.strip_prefix(upstream.name())?.strip_prefix('+')?;
            let is_known = lists_resource(lists, own) || !lists.templates.is_empty();
            is_known.then_some((index, own))
        })
    });
    let found = found.or_else(|| {
        let with_templates = candidates().find(|(_, _, lists)| !lists.templates.is_empty());
        with_templates.map(|(index, ..)| (index, uri))
    });
    let (index, own) = found?;
    let is_hidden = sources[index].upstream.pool.settings.selection.hides(own);
    (!is_hidden).then_some(UpstreamResource { index, own })
}

fn lists_resource(lists: &Lists, uri: &str) -> bool {
    let mut uris = lists.resources.iter().filter_map(|it| it.get("uri")?.as_str());
    uris.any(|listed| listed == uri)
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

    /// Ends what follows the resources of an upstream, whose URIs are returned.
    pub fn end_all(&mut self, index: usize) -> Vec<String> {
        let mut ended = Vec::new();
        for (uri, resource) in &mut self.resources {
            if let Some(of_upstream) = resource.subscription.take_if(|it| it.index == index) {
                of_upstream.stop.set(());
                ended.push(uri.clone());
            }
        }
        ended
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
        let (index, stopped_by) = (place.index, Arc::clone(&stop));
        let subscription = ResourceSubscription { index, number, began: now, stop: stopped_by };
        resource.subscription = Some(subscription);
        let is_repeated = std::mem::replace(&mut resource.was_followed, true);
        Some(FollowedResource {
            index,
            own: place.own.to_owned(),
            offered: uri.to_owned(),
            number,
            is_repeated,
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
    fn resources_of_upstream_are_followed_anew() {
        let mut followed = FollowedResources::default();
        let begun = followed.subscribe(URI, Some(PLACE), at(0)).unwrap();
        assert!(followed.end_all(1).is_empty());
        assert_eq!(followed.end_all(0), [URI]);
        // It has been stopped, and what it still says is of no account.
        followed.end(URI, begun.number, false, at(0));
        assert_eq!(followed.next_due(), None);
        assert!(followed.subscribe(URI, Some(PLACE), at(0)).is_some_and(|it| it.is_repeated));
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
