//! The changes that local handlers of one shard have asked for, on their way to the writer.
//!
//! A handler on a shard must not wait for the writer. So its edit goes to the blocking pool, which
//! waits for it, and what came of it returns by letter. The shard reads that letter after the one
//! that brought the edition: a handler that has awaited its change finds it offered.
//!
//! What it keeps true: an edit that was asked for is made, whether or not somebody still waits for
//! it, unless the server ends before; one that panics takes nobody with it but whoever waits.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::base::slab::{Key, Slab};
use crate::base::time::Moment;
use crate::engine::blocking::{BlockingPool, Job};
use crate::engine::mesh::{Post, ShardId};
use crate::server::desk::draft::{Draft, Made};
use crate::server::editor::Editor;
use crate::server::letter::{self, Letter};

/// The changes that one shard waits for. There are at most as many as calls at work.
pub(in crate::server) struct Drafts {
    editor: Arc<Editor>,
    blocking: Arc<BlockingPool>,
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
        blocking: Arc<BlockingPool>,
        post: Post<Letter>,
        shard: ShardId,
    ) -> Self {
        let (awaited, refused) = (Slab::new(usize::MAX), VecDeque::new());
        Self { editor, blocking, post, shard, awaited, refused, again: None }
    }

    /// Has the pool make an edit, or make it later where it is full.
    pub(in crate::server) fn begin(&mut self, draft: Rc<Draft>, now: Moment) {
        let Some(edit) = draft.take() else { return };
        let key = self.awaited.insert(draft).ok();
        let (editor, post, shard) = (Arc::clone(&self.editor), self.post.clone(), self.shard);
        self.refused.push_back(Box::new(move || {
            let mut reply = Reply { post, shard, key, made: None };
            reply.made = Some(editor.change(edit));
        }));
        self.hand_over(now);
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
        while let Some(job) = self.refused.pop_front() {
            if let Err(refused) = self.blocking.run(job) {
                self.refused.push_front(refused);
                self.again = Some(now.after(AGAIN));
                return;
            }
        }
    }
}

/// Tells the shard what came of an edit, when it is dropped: also where the edit panicked.
struct Reply {
    post: Post<Letter>,
    shard: ShardId,
    key: Option<Key>,
    made: Made,
}

impl Drop for Reply {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let made = self.made.take();
        letter::deliver(&self.post, self.shard, Letter::Changed { key, made });
    }
}

/// How long an edit waits before it is offered to a full pool once more.
const AGAIN: Duration = Duration::from_millis(5);
