//! Letters: all that a shard hears from other threads.
//!
//! What it keeps true: a [`Notice`] reaches every shard that has not ended, once, and all shards
//! get all notices in the same order, whichever threads they come from. A full inbox delays a
//! notice and loses none.

use std::fmt;
use std::sync::{Arc, TryLockError, Weak};
use std::time::Duration;

use super::desk::draft::Made;
use super::desk::voice::Logs;
use super::desk::{LogMessage, Progress};
use super::http::{self, HttpLetter};
use super::questions::Asker;
use super::subscriptions::{Bounds, Lists};
use super::tasks::{self, TaskLetter};
use super::websocket;
use crate::base::slab::Key;
use crate::engine::mesh::{Outbox, Post, ShardId, Tally};
use crate::link::LinkOptions;
use crate::protocol::era::LogLevel;
use crate::service::{Catalog, CatalogError, Client, Edit, HandlerError, WorkerHost, Yield};
use crate::transport::http::limits::Limits as RequestLimits;

/// One letter to a shard.
#[derive(Debug)]
pub(super) enum Letter {
    /// What every shard is told.
    Notice(Notice),
    /// A blocking handler has something to say to its client's log.
    Log(Box<LogMessage>),
    /// A blocking handler has come this far.
    Progress(Progress),
    /// About an exchange of HTTP.
    Http(Box<HttpLetter>),
    /// About a task.
    Task(Box<TaskLetter>),
    /// A blocking handler has ended.
    Finished {
        /// Which call.
        ticket: Key,
        /// How.
        result: Result<Yield, HandlerError>,
    },
    /// A change of the catalog that a local handler waits for was made.
    Changed {
        /// Which one.
        key: Key,
        /// What came of it.
        made: Made,
    },
}

/// What a blocking handler reaches beyond its own shard.
pub(super) trait Reach: fmt::Debug + Send + Sync {
    /// Changes what is offered; see [`crate::service::Worker::change`].
    fn change(&self, edit: Edit) -> Result<(), CatalogError>;

    /// Tells who subscribed to a resource that it has changed.
    fn updated(&self, uri: &str);
}

/// What every shard of a server is told; each gets a copy.
#[derive(Clone, Debug)]
pub(super) enum Notice {
    /// Serve what is in flight, accept nothing more, end.
    Drain,
    /// Offer this from now on; calls in flight end with what they began with. The last shard to do
    /// so has all of them tell who listens: whoever hears of an edition finds it on every shard.
    Catalog {
        /// The next edition.
        catalog: Arc<Catalog>,
        /// What those who listen are told about it.
        changes: Lists,
        /// The shards that offer it.
        offered: Arc<Tally>,
    },
    /// Every shard offers an edition that differs in this from the one before.
    Changed(Lists),
    /// Keep to these limits from now on. Shared, because an inbox holds many letters, and the
    /// largest one makes the size of all.
    Limits(Arc<Limits>),
    /// The resource with this URI has changed.
    Updated(Arc<str>),
}

impl Notice {
    /// The next edition of the catalog.
    pub(super) fn edition(catalog: &Arc<Catalog>, changes: Lists) -> Self {
        Self::Catalog { catalog: Arc::clone(catalog), changes, offered: Arc::default() }
    }
}

/// The limits that can change while a shard runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) link: LinkOptions,
    pub(super) connections_max: usize,
    pub(super) http_connections_max: usize,
    /// What one request of HTTP may take.
    pub(super) http: RequestLimits,
    pub(super) patience: http::Patience,
    /// What messages over WebSocket are held to.
    pub(super) websocket: websocket::Rules,
    pub(super) sessions: http::Bounds,
    pub(super) requests_in_flight_max: usize,
    pub(super) request_max: Duration,
    pub(super) question_max: Duration,
    pub(super) round_max: Duration,
    pub(super) drain_max: Duration,
    pub(super) tasks: tasks::Bounds,
    pub(super) subscriptions: Bounds,
}

/// The way from one blocking handler to the shard of its call.
#[derive(Debug)]
pub(super) struct WorkerVoice {
    pub(super) post: Post<Letter>,
    pub(super) shard: ShardId,
    pub(super) ticket: Key,
    /// Alive as long as somebody waits for the answer.
    pub(super) interest: Weak<()>,
    pub(super) client: Client,
    pub(super) logs: Logs,
    /// The way to all shards.
    pub(super) reach: Arc<dyn Reach>,
}

impl WorkerHost for WorkerVoice {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if !self.is_cancelled() {
            let message = message.map(str::to_owned);
            let progress = Progress { ticket: self.ticket, done: progress, total, message };
            // Progress is advice: where the box is full the next one will do.
            drop(self.post.try_send(self.shard, Letter::Progress(progress)));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.interest.strong_count() == 0
    }

    fn client(&self) -> Client {
        self.client
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: serde_json::Value) {
        if self.logs.wants(level) && !self.is_cancelled() {
            let logger = logger.map(str::to_owned);
            let message = LogMessage { from: Asker::Call(self.ticket), level, logger, data };
            // Told before the answer or not at all: where the box is full nobody waits for it.
            drop(self.post.try_send(self.shard, Letter::Log(Box::new(message))));
        }
    }

    fn updated(&self, uri: &str) {
        self.reach.updated(uri);
    }

    fn change(&self, edit: Edit) -> Result<(), CatalogError> {
        self.reach.change(edit)
    }
}

/// Leaves a letter that must not be lost, from a thread that may wait: a shard empties its box once
/// a turn, so a full one has room again within microseconds. The end of a handler is one of them,
/// also where nobody waits for its answer any more: until then its call has a place. Gives up only
/// where the shard has ended.
pub(super) fn deliver(post: &Post<Letter>, shard: ShardId, letter: Letter) {
    // A shard that has ended waits for nothing.
    drop(post.send_while(shard, letter, || true));
}

/// Refused: an earlier notice still waits for room in the inbox of a shard, or another thread is
/// telling one at this moment. Nothing was taken; the same may be tried again, after a turn of the
/// shards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an earlier notice is still on its way to the shards")
    }
}

impl std::error::Error for Busy {}

/// Taken only for one pass over the shards, and never waited for.
#[expect(clippy::disallowed_types, reason = "steering threads share it, and no shard's turn does")]
type Mutex<T> = std::sync::Mutex<T>;

/// The way of notices to all shards: one for each server, shared by whoever steers it.
///
/// At most one notice is under way at a time. So what waits for room is bounded by one letter a
/// shard, and no two shards can hear two notices in different orders.
#[derive(Debug)]
pub(super) struct Circular {
    post: Post<Letter>,
    /// The copies of the notice under way that found their inbox full.
    outbox: Mutex<Outbox<Letter>>,
}

impl Circular {
    /// The way to every shard behind `post`.
    pub(super) fn new(post: Post<Letter>) -> Self {
        let outbox = Mutex::new(Outbox::new(post.shards().count()));
        Self { post, outbox }
    }

    /// The way to one shard alone.
    #[cfg(test)]
    pub(super) const fn post(&self) -> &Post<Letter> {
        &self.post
    }

    /// How many shards are told, those that have ended included.
    pub(super) fn shards(&self) -> usize {
        self.post.shards().count()
    }

    /// Takes a notice for every shard, where none is under way. A copy that finds its inbox full
    /// waits here for the next call of any kind. Never waits itself.
    ///
    /// # Errors
    ///
    /// [`Busy`]: an earlier one is under way, and this one was not taken.
    pub(super) fn try_tell(&self, notice: &Notice) -> Result<(), Busy> {
        self.try_tell_of(|| Some(notice.clone()))
    }

    /// The same with a notice that is made only where it is taken; `make` may have none to tell.
    ///
    /// # Errors
    ///
    /// [`Busy`], as [`Circular::try_tell`]; nothing was made then.
    pub(super) fn try_tell_of(&self, make: impl FnOnce() -> Option<Notice>) -> Result<(), Busy> {
        self.pass_on(|outbox| {
            let Some(notice) = make() else { return };
            for shard in self.post.shards() {
                outbox.put(shard, Letter::Notice(notice.clone()));
            }
        })
    }

    /// Tries again what found no room. Never waits.
    ///
    /// # Errors
    ///
    /// [`Busy`]: there still is none somewhere.
    pub(super) fn try_deliver(&self) -> Result<(), Busy> {
        self.pass_on(|_| {})
    }

    /// Tells every shard, from a thread that may wait: never from a shard's own, which would wait
    /// for itself. Returns when every shard has the notice in its inbox.
    pub(super) fn tell(&self, notice: &Notice) {
        while self.try_tell(notice).is_err() {
            std::thread::yield_now();
        }
        while self.try_deliver().is_err() {
            std::thread::yield_now();
        }
    }

    /// Passes on what waits; once nothing does has `fill` put more there, and passes on of that
    /// what has room.
    fn pass_on(&self, fill: impl FnOnce(&mut Outbox<Letter>)) -> Result<(), Busy> {
        let mut outbox = match self.outbox.try_lock() {
            Ok(outbox) => outbox,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is passing on.
            Err(TryLockError::WouldBlock) => return Err(Busy),
        };
        // Whoever has ended needs no notice.
        let mut send = |shard, letter| self.post.try_send(shard, letter);
        outbox.send_with(&mut send);
        if !outbox.is_empty() {
            return Err(Busy);
        }
        fill(&mut outbox);
        outbox.send_with(&mut send);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::mesh::{Mailbox, MeshOptions, mesh};
    use crate::engine::ring::Waker;
    use crate::server::options::Options;
    use crate::server::shard;

    fn circular(shards: usize, post_letters_max: u32) -> (Circular, Vec<Mailbox<Letter>>) {
        let options = MeshOptions { post_letters_max, ..MeshOptions::default() };
        let (seats, post) = mesh(shards, &options);
        let mailboxes = seats.into_iter().map(|seat| seat.open(Waker::new(|| {})));
        (Circular::new(post), mailboxes.collect())
    }

    /// The limit of connections that each letter tells of.
    fn heard(mailbox: &mut Mailbox<Letter>) -> Vec<usize> {
        let mut letters = Vec::new();
        mailbox.receive(&mut letters, usize::MAX);
        let limits = letters.into_iter().map(|letter| match letter {
            Letter::Notice(Notice::Limits(limits)) => limits.connections_max,
            other => panic!("nobody said {other:?}"),
        });
        limits.collect()
    }

    fn notice(connections_max: usize) -> Notice {
        let limits = shard::limits(&Options::default(), 1);
        Notice::Limits(Arc::new(Limits { connections_max, ..limits }))
    }

    #[test]
    fn a_notice_that_finds_a_full_inbox_comes_later_and_once() {
        let (circular, mut mailboxes) = circular(2, 1);
        assert_eq!(circular.try_tell(&notice(1)), Ok(()));
        assert_eq!(circular.try_deliver(), Ok(()));
        assert_eq!(heard(&mut mailboxes[1]), [1]);
        assert_eq!(circular.try_tell(&notice(2)), Ok(()));
        assert_eq!(circular.try_deliver(), Err(Busy));
        assert_eq!(circular.try_tell(&notice(3)), Err(Busy));
        assert_eq!(heard(&mut mailboxes[1]), [2]);
        assert_eq!(heard(&mut mailboxes[0]), [1]);
        assert_eq!(circular.try_deliver(), Ok(()));
        assert_eq!((heard(&mut mailboxes[0]), heard(&mut mailboxes[1])), (vec![2], vec![]));
    }

    #[test]
    fn the_end_of_a_handler_comes_to_its_shard_though_nobody_waits_for_the_answer() {
        let (circular, mut mailboxes) = circular(1, 1);
        assert_eq!(circular.try_tell(&notice(1)), Ok(()));
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            let handler = scope.spawn(|| {
                deliver(&circular.post, ShardId(0), Letter::Notice(notice(2)));
            });
            while mailboxes[0].counts().refused_post == 0 {
                std::thread::yield_now();
            }
            while !handler.is_finished() {
                all.extend(heard(&mut mailboxes[0]));
            }
        });
        all.extend(heard(&mut mailboxes[0]));
        assert_eq!(all, [1, 2]);
    }

    #[test]
    fn a_letter_is_small() {
        // What the table of options says that a place costs.
        assert!(size_of::<Letter>() <= 112, "{}", size_of::<Letter>());
    }

    #[test]
    fn a_shard_that_has_ended_keeps_nobody_waiting() {
        let (circular, mut mailboxes) = circular(2, 1);
        circular.tell(&notice(1));
        drop(mailboxes.remove(0));
        assert_eq!(heard(&mut mailboxes[0]), [1]);
        circular.tell(&notice(2));
        assert_eq!(heard(&mut mailboxes[0]), [2]);
    }

    #[test]
    fn shards_hear_the_notices_of_many_threads_in_one_order() {
        let (circular, mut mailboxes) = circular(3, 2);
        let heard = std::thread::scope(|scope| {
            for thread in 0..4 {
                let circular = &circular;
                scope.spawn(move || (0..50).for_each(|n| circular.tell(&notice(thread * 100 + n))));
            }
            let mut orders: Vec<Vec<usize>> = vec![Vec::new(); mailboxes.len()];
            while orders.iter().any(|order| order.len() < 200) {
                for (order, mailbox) in orders.iter_mut().zip(&mut mailboxes) {
                    order.extend(heard(mailbox));
                }
                std::thread::yield_now();
            }
            orders
        });
        assert!(heard.iter().all(|order| *order == heard[0]));
    }
}
