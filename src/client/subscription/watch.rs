//! A list that is read again whenever the server notifies of its change.

use std::fmt;
use std::sync::Arc;

use super::{Change, Subscription, SubscriptionFilter};
use crate::error::ClientError;
use crate::io::PeerRef;
use crate::request::{ListItem, Pages};
use crate::results::{PromptInfo, ResourceInfo, ResourceTemplateInfo, ToolInfo};

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
