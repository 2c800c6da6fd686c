//! The changes that local handlers of one shard have asked for, on their way to the writer.
//!
//! A handler on a shard must not wait for the writer. So its edit goes to the blocking pool, which
//! waits for it, and what came of it returns by letter. The shard reads that letter after the one
//! that brought the edition: a handler that has awaited its change finds it offered. Where somebody
//! else makes the edits ([`super::PendingEdit`]), they go there instead.
//!
//! What it keeps true: an edit that was asked for is made, whether or not somebody still waits for
//! it, unless the server ends before; one that panics takes nobody with it but whoever waits.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::Editor;
use super::pending::{PendingEdit, Reply};
use crate::base::slab::{Key, Slab};
use crate::base::time::Moment;
use crate::engine::blocking::{BlockingPool, Job};
use crate::engine::mesh::{Post, ShardId};
use crate::server::desk::draft::{Draft, Made};
use crate::server::letter::Letter;

/// Who makes the edits.
#[derive(Clone, Debug)]
pub(in crate::server) enum Makers {
    /// The threads for blocking handlers, which may wait.
    Pool(Arc<BlockingPool>),
    /// Whoever receives them.
    Receiver(Sender<PendingEdit>),
}

/// The changes that one shard waits for. There are at most as many as calls at work.
pub(in crate::server) struct Drafts {
    editor: Arc<Editor>,
    makers: Makers,
    post: Post<Letter>,
    shard: ShardId,
    awaited: Slab<Rc<Draft>>,
    /// Jobs that found the pool full, and when they are offered to it again.
    refused: VecDeque<Job>,
    again: Option<Moment>,
}

impl Drafts {
    /// No change.
    pub(in crate::server) fn new(
        editor: Arc<Editor>,
        makers: Makers,
        post: Post<Letter>,
        shard: ShardId,
    ) -> Self {
        let (awaited, refused) = (Slab::new(usize::MAX), VecDeque::new());
        Self { editor, makers, post, shard, awaited, refused, again: None }
    }

    /// Has an edit made, or made later where the pool is full.
    pub(in crate::server) fn begin(&mut self, draft: Rc<Draft>, now: Moment) {
        let Some(edit) = draft.take() else { return };
        let key = self.awaited.insert(draft).ok();
        let reply = Reply::new(self.post.clone(), self.shard, key);
        let pending = PendingEdit::new(Arc::clone(&self.editor), edit, reply);
        match &self.makers {
            // Where nobody receives, the edit is dropped, and whoever waits hears of it.
            Makers::Receiver(sender) => drop(sender.send(pending)),
            Makers::Pool(_) => {
                self.refused.push_back(Box::new(move || pending.make()));
                self.hand_over(now);
            }
        }
    }

    /// Whether changes are awaited that have not been made.
    pub(in crate::server) const fn are_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Takes the letter of a change that was made.
    pub(in crate::server) fn settle(&mut self, key: Key, made: Made) {
        if let Some(draft) = self.awaited.remove(key) {
            draft.put(made);
        }
    }

    /// Offers what the pool refused again, where it is time for that.
    pub(in crate::server) fn expire(&mut self, now: Moment) {
        if self.again.is_some_and(|again| again <= now) {
            self.hand_over(now);
        }
    }

    /// When [`Drafts::expire`] next has something to do.
    pub(in crate::server) const fn deadline(&self) -> Option<Moment> {
        self.again
    }

    fn hand_over(&mut self, now: Moment) {
        self.again = None;
        let Makers::Pool(pool) = &self.makers else { return };
        while let Some(job) = self.refused.pop_front() {
            if let Err(refused) = pool.run(job) {
                self.refused.push_front(refused);
                self.again = Some(now.after(AGAIN));
                return;
            }
        }
    }
}

/// How long an edit waits before it is offered to a full pool once more.
const AGAIN: Duration = Duration::from_millis(5);
