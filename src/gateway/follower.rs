//! Follows the lists of one upstream, on the I/O thread of the gateway.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use corelane_client::{Change, ClientError, Oneshot, SubscriptionFilter};
use crossbeam::channel::Sender;

use crate::gateway::lists::Lists;
use crate::gateway::pool::Pool;
use crate::telemetry::event::UpstreamEvent;

/// What the followers of upstreams report; `index` is the position of the upstream.
#[derive(Debug)]
pub enum News {
    /// Its lists were read.
    Lists { index: usize, lists: Box<Lists> },
    /// Its lists could not be read.
    Failed { index: usize, error: ClientError },
    /// It sends no more notifications, as it said or because of an error.
    FollowEnded { index: usize, error: Option<ClientError> },
    /// It has notified a change of its lists.
    ListsChanged { index: usize },
    /// It has notified a change of a resource.
    ResourceUpdated { uri: String },
    /// A shard has its first subscriber of a resource, or has lost its last one.
    Subscribed { uri: String, has_subscribers: bool },
    /// The server has ended.
    Stop,
}

/// Reads the lists of an upstream, once.
pub async fn read_lists(pool: Arc<Pool>, index: usize, news: Sender<News>) {
    let lists = async {
        let connection = pool.lister()?;
        connection.server().await?;
        Lists::read(&connection.client).await
    };
    let news_of = match lists.await {
        Ok(lists) => News::Lists { index, lists: Box::new(lists) },
        Err(error) => News::Failed { index, error },
    };
    // Fails if the gateway has ended.
    news.send(news_of).unwrap_or_default();
}

/// Reports the changes of one resource, whose URI in the catalog is `offered`, until `stop` is set
/// or the upstream sends no more.
pub async fn follow_resource(
    pool: Arc<Pool>,
    own: String,
    offered: String,
    stop: Arc<Oneshot<()>>,
    news: Sender<News>,
) {
    let changes = async {
        let connection = pool.lister()?;
        let filter = SubscriptionFilter::default().resource(own);
        let mut subscription = connection.client.subscribe(&filter).await?;
        while let Some(change) = subscription.next().await {
            if let Change::Resource { .. } = change?
                && news.send(News::ResourceUpdated { uri: offered.clone() }).is_err()
            {
                break;
            }
        }
        Ok::<(), ClientError>(())
    };
    let mut changes = pin!(changes);
    poll_fn(|context| {
        if stop.poll_take(context).is_ready() {
            return Poll::Ready(());
        }
        changes.as_mut().poll(context).map(|result| {
            if let Err(error) = result {
                let (upstream, error) = (&pool.settings.name, error.to_string());
                UpstreamEvent::Failed { upstream, error: &error }.emit();
            }
        })
    })
    .await;
}

/// Reports the changes that an upstream notifies, until it sends no more. What it says of
/// resources that were not asked for is ignored.
pub async fn follow(pool: Arc<Pool>, index: usize, news: Sender<News>) {
    let changes = async {
        let connection = pool.lister()?;
        let mut subscription = connection.client.subscribe(&SubscriptionFilter::lists()).await?;
        while let Some(change) = subscription.next().await {
            // After a loss of notifications the lists may have changed.
            let is_list = !matches!(change?, Change::Task { .. } | Change::Resource { .. });
            if is_list && news.send(News::ListsChanged { index }).is_err() {
                break;
            }
        }
        Ok::<(), ClientError>(())
    };
    let error = changes.await.err();
    // Fails if the gateway has ended.
    news.send(News::FollowEnded { index, error }).unwrap_or_default();
}
