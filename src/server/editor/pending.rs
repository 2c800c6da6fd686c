//! One edit that a local handler has asked for, until it is made and its shard knows.
//!
//! What it keeps true: the shard hears what came of it once, after it was told of the edition, also
//! where the edit panicked or was never made.

use std::fmt;
use std::sync::Arc;

use super::Editor;
use crate::base::slab::Key;
use crate::engine::mesh::{Post, Refusal, ShardId};
use crate::server::desk::draft::Made;
use crate::server::letter::{self, Letter};
use crate::service::Edit;

/// A change of the catalog that a handler has asked for by [`crate::service::Live::change`] and
/// waits for, as it comes to whoever [`crate::server::Server::edits_to`] names.
///
/// Dropped before it was made, it changes nothing, and its handler ends as if the edit panicked.
pub struct PendingEdit {
    editor: Arc<Editor>,
    /// Gone once it was made.
    edit: Option<Edit>,
    reply: Reply,
}

impl PendingEdit {
    pub(super) const fn new(editor: Arc<Editor>, edit: Edit, reply: Reply) -> Self {
        Self { editor, edit: Some(edit), reply }
    }

    /// Makes it, on a thread that may wait for changes that are being made and for room in the
    /// inboxes of the shards.
    pub(super) fn make(mut self) {
        if let Some(edit) = self.edit.take() {
            self.reply.made = Some(self.editor.change(edit));
        }
    }

    /// Makes it as far as that goes without waiting: the edition, the letters that tell every
    /// shard, the letter that tells the handler. Any thread may try, also one that turns shards.
    ///
    /// # Errors
    ///
    /// What is left of it, to be tried again after a turn of the shards: another change is being
    /// made, or some inbox is full.
    pub fn try_make(mut self) -> Result<(), Self> {
        if self.edit.is_some() {
            match self.editor.try_change(&mut self.edit) {
                Ok(made) => self.reply.made = Some(made),
                Err(letter::Busy) => return Err(self),
            }
        }
        // The handler is told after its shard was.
        if self.editor.try_deliver().is_ok() && self.reply.try_leave() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Debug for PendingEdit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_made = self.edit.is_none();
        formatter.debug_struct("PendingEdit").field("is_made", &is_made).finish_non_exhaustive()
    }
}

/// Tells the shard what came of an edit, at the latest when it is dropped: also where the edit
/// panicked.
pub(super) struct Reply {
    post: Post<Letter>,
    shard: ShardId,
    /// Gone once it was told, or where nobody waits.
    key: Option<Key>,
    made: Made,
}

impl Reply {
    pub(super) const fn new(post: Post<Letter>, shard: ShardId, key: Option<Key>) -> Self {
        Self { post, shard, key, made: None }
    }

    /// Leaves the letter where there is room for it; `false` where it has to wait.
    fn try_leave(&mut self) -> bool {
        let Some(key) = self.key.take() else { return true };
        let made = self.made.take();
        match self.post.try_send(self.shard, Letter::Changed { key, made }) {
            Err(Refusal::Full(Letter::Changed { key, made })) => {
                (self.key, self.made) = (Some(key), made);
                false
            }
            // A shard that has ended waits for nothing.
            Ok(()) | Err(_) => true,
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let made = self.made.take();
        letter::deliver(&self.post, self.shard, Letter::Changed { key, made });
    }
}
