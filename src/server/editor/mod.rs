//! The one writer of the catalog.
//!
//! What it keeps true: an edition follows an edition. Changes are made one after the other, each
//! on what the one before it left; each comes to every shard once, and to all shards in the same
//! order; a change that fails its checks leaves everything as it was.
//!
//! What it does not do: run on a shard. A change takes as long as it takes to frame what is new,
//! and waits for those before it; handlers on a shard hand theirs to the blocking pool.

mod pending;

mod drafts;

pub(super) use self::drafts::{Drafts, Makers};
pub use self::pending::PendingEdit;

use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

use super::letter::{Busy, Circular, Notice, Reach};
use super::subscriptions::Lists;
use crate::service::{Catalog, CatalogBuilder, CatalogError, Edit};

#[expect(clippy::disallowed_types, reason = "threads that change share it, and no shard does")]
type Mutex<T> = std::sync::Mutex<T>;

/// The catalog as it was last told to the shards, and the way to tell them of the next one.
#[derive(Debug)]
pub(super) struct Editor {
    circular: Arc<Circular>,
    /// Held while an edition is made and told, so that they follow each other. No shard waits for
    /// it.
    present: Mutex<Arc<Catalog>>,
}

impl Editor {
    /// The writer of the catalog that every shard begins with.
    pub(super) const fn new(circular: Arc<Circular>, catalog: Arc<Catalog>) -> Self {
        Self { circular, present: Mutex::new(catalog) }
    }

    /// Makes the next edition out of the present one and tells every shard. Waits for changes that
    /// are being made: not for a shard's own thread, and not from within an edit.
    ///
    /// # Errors
    ///
    /// Where what came of it is no catalog; the present one stays.
    pub(super) fn change(
        &self,
        edit: impl FnOnce(CatalogBuilder) -> CatalogBuilder,
    ) -> Result<(), CatalogError> {
        let mut present = self.present();
        let next = Arc::new(edit(present.edit()).build()?);
        let changes = Lists::from(next.changes_from(&present));
        self.circular.tell(&Notice::edition(&next, changes));
        *present = next;
        Ok(())
    }

    /// Makes the next edition without waiting, from any thread; takes `edit` out where it does.
    ///
    /// # Errors
    ///
    /// [`Busy`], as [`Editor::try_offer`]; `edit` is still there then.
    fn try_change(&self, edit: &mut Option<Edit>) -> Result<Result<(), CatalogError>, Busy> {
        let mut present = self.try_present()?;
        let mut made = Ok(());
        self.circular.try_tell_of(|| {
            let edit = edit.take()?;
            match edit(present.edit()).build() {
                Ok(next) => {
                    let changes = Lists::from(next.changes_from(&present));
                    *present = Arc::new(next);
                    Some(Notice::edition(&present, changes))
                }
                Err(error) => {
                    made = Err(error);
                    None
                }
            }
        })?;
        Ok(made)
    }

    /// Tries again what found no room before, without waiting.
    ///
    /// # Errors
    ///
    /// [`Busy`]: some shard still has none.
    fn try_deliver(&self) -> Result<(), Busy> {
        self.circular.try_deliver()
    }

    /// Has `catalog` follow the present edition, whatever that is. Waits as [`Editor::change`].
    pub(super) fn offer(&self, catalog: Arc<Catalog>) {
        let mut present = self.present();
        let changes = Lists::from(catalog.changes_from(&present));
        self.circular.tell(&Notice::edition(&catalog, changes));
        *present = catalog;
    }

    /// The same without waiting, from any thread.
    ///
    /// # Errors
    ///
    /// [`Busy`]: another change is being made, or an earlier notice is under way.
    pub(super) fn try_offer(&self, catalog: &Arc<Catalog>) -> Result<(), Busy> {
        let mut present = self.try_present()?;
        let changes = Lists::from(catalog.changes_from(&present));
        self.circular.try_tell(&Notice::edition(catalog, changes))?;
        present.clone_from(catalog);
        Ok(())
    }

    /// Tells every shard that the resource with this URI has changed. Waits for room in the boxes
    /// of the shards, which takes microseconds: not for a shard's own thread.
    pub(super) fn updated(&self, uri: &str) {
        self.circular.tell(&Notice::Updated(uri.into()));
    }

    /// The present edition is whole even where an edit panicked: it is replaced last.
    fn present(&self) -> MutexGuard<'_, Arc<Catalog>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same without waiting.
    fn try_present(&self) -> Result<MutexGuard<'_, Arc<Catalog>>, Busy> {
        match self.present.try_lock() {
            Ok(present) => Ok(present),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Busy),
        }
    }
}

impl Reach for Editor {
    fn change(&self, edit: Edit) -> Result<(), CatalogError> {
        Self::change(self, edit)
    }

    fn updated(&self, uri: &str) {
        Self::updated(self, uri);
    }
}

#[cfg(test)]
mod tests {
    use super::pending::Reply;
    use super::*;
    use crate::base::slab::Key;
    use crate::engine::mesh::{Mailbox, MeshOptions, ShardId, mesh};
    use crate::engine::ring::Waker;
    use crate::protocol::message::ServerInfo;
    use crate::server::letter::Letter;
    use crate::server::subscriptions::List;
    use crate::service::{NoArguments, Tool};

    fn editor() -> (Editor, Vec<Mailbox<Letter>>) {
        editor_with_room(MeshOptions::default().post_letters_max)
    }

    fn editor_with_room(post_letters_max: u32) -> (Editor, Vec<Mailbox<Letter>>) {
        let options = MeshOptions { post_letters_max, ..MeshOptions::default() };
        let (seats, post) = mesh(2, &options);
        let mailboxes = seats.into_iter().map(|seat| seat.open(Waker::new(|| {})));
        let catalog = Catalog::builder(ServerInfo::new("editor", "1")).build().unwrap();
        let editor = Editor::new(Arc::new(Circular::new(post)), Arc::new(catalog));
        (editor, mailboxes.collect())
    }

    fn tool(name: &str) -> Tool {
        Tool::new(name).inline(|NoArguments {}, _| Ok(()))
    }

    /// How many tools each edition has, and whether that is told.
    fn heard(mailbox: &mut Mailbox<Letter>) -> Vec<(usize, bool)> {
        let mut letters = Vec::new();
        mailbox.receive(&mut letters, usize::MAX);
        let editions = letters.into_iter().map(|letter| match letter {
            Letter::Notice(Notice::Catalog { catalog, changes, .. }) => {
                (catalog.tools().len(), changes.has(List::Tools))
            }
            other => panic!("nobody said {other:?}"),
        });
        editions.collect()
    }

    #[test]
    fn each_edition_follows_the_one_before_it_and_comes_to_every_shard_once() {
        let (editor, mut mailboxes) = editor();
        editor.change(|catalog| catalog.tool(tool("one"))).unwrap();
        editor.change(|catalog| catalog).unwrap();
        editor.change(|catalog| catalog.tool(tool("two"))).unwrap();
        let other = Catalog::builder(ServerInfo::new("other", "1")).tool(tool("three"));
        editor.try_offer(&Arc::new(other.build().unwrap())).unwrap();
        editor.change(|catalog| catalog.tool(tool("four"))).unwrap();
        for mailbox in &mut mailboxes {
            let editions = [(1, true), (1, false), (2, true), (1, true), (2, true)];
            assert_eq!(heard(mailbox), editions);
        }
    }

    /// An edit that the first shard waits for.
    fn pending(editor: &Arc<Editor>, edit: Edit) -> PendingEdit {
        let key = Some(Key::from_bits(1));
        let reply = Reply::new(editor.circular.post().clone(), ShardId(0), key);
        PendingEdit::new(Arc::clone(editor), edit, reply)
    }

    fn letters(mailbox: &mut Mailbox<Letter>) -> Vec<&'static str> {
        let mut letters = Vec::new();
        mailbox.receive(&mut letters, usize::MAX);
        let names = letters.into_iter().map(|letter| match letter {
            Letter::Notice(Notice::Catalog { .. }) => "edition",
            Letter::Changed { made: Some(Ok(())), .. } => "made",
            Letter::Changed { made: Some(Err(_)), .. } => "failed",
            Letter::Changed { made: None, .. } => "nothing",
            other => panic!("nobody said {other:?}"),
        });
        names.collect()
    }

    #[test]
    fn an_edit_that_must_not_wait_is_made_once_and_told_in_order_as_there_is_room() {
        let (editor, mut mailboxes) = editor_with_room(1);
        let editor = Arc::new(editor);
        editor.change(|catalog| catalog).unwrap();
        let edit = pending(&editor, Box::new(|catalog| catalog.tool(tool("one"))));
        let edit = edit.try_make().expect_err("no shard has room");
        assert_eq!(editor.present().tools().len(), 1);
        assert_eq!(letters(&mut mailboxes[0]), ["edition"]);
        let edit = edit.try_make().expect_err("the second shard has no room");
        assert_eq!(letters(&mut mailboxes[0]), ["edition"]);
        assert_eq!(letters(&mut mailboxes[1]), ["edition"]);
        assert!(edit.try_make().is_ok());
        assert_eq!(letters(&mut mailboxes[0]), ["made"]);
        assert_eq!(letters(&mut mailboxes[1]), ["edition"]);
        assert_eq!(editor.present().tools().len(), 1);
    }

    #[test]
    fn an_edit_that_fails_or_is_never_made_tells_its_shard_alone() {
        let (editor, mut mailboxes) = editor();
        let editor = Arc::new(editor);
        let twice = pending(&editor, Box::new(|it| it.tools([tool("one"), tool("one")])));
        assert!(twice.try_make().is_ok());
        drop(pending(&editor, Box::new(|catalog| catalog)));
        assert_eq!(letters(&mut mailboxes[0]), ["failed", "nothing"]);
        assert!(letters(&mut mailboxes[1]).is_empty());
    }

    #[test]
    fn a_change_that_fails_is_told_to_nobody() {
        let (editor, mut mailboxes) = editor();
        let twice = |catalog: CatalogBuilder| catalog.tools([tool("one"), tool("one")]);
        assert!(editor.change(twice).is_err());
        assert!(mailboxes.iter_mut().all(|mailbox| heard(mailbox).is_empty()));
    }

    #[test]
    fn an_offer_that_must_not_wait_is_refused_while_a_change_is_made() {
        let (editor, mut mailboxes) = editor();
        let catalog = Arc::clone(&editor.present());
        let refused = editor.change(|builder| {
            assert_eq!(editor.try_offer(&catalog), Err(Busy));
            builder
        });
        assert_eq!(refused, Ok(()));
        assert_eq!(heard(&mut mailboxes[1]), [(0, false)]);
    }
}
