//! Calls of the server's handle, queued and retried without ever blocking.
//!
//! Checks that each shard has read every command taken before its drain, and none twice.

use std::collections::VecDeque;
use std::sync::Arc;

use corelane::{Busy, Catalog, Handle, Options};

/// A command for every shard.
#[derive(Debug)]
pub(crate) enum ServerCommand {
    Drain,
    ReloadLimits(Box<Options>),
    ReplaceCatalog(Arc<Catalog>),
}

/// Commands that wait for the server to take them.
#[derive(Debug)]
pub(crate) struct CommandQueue {
    handle: Handle,
    waiting: VecDeque<ServerCommand>,
    /// Commands that the server has taken.
    taken: u64,
    /// Those of them that replaced the catalog: the last shard to apply one notifies the others.
    catalogs: u64,
    /// Value of `taken` when the first drain was taken.
    taken_with_drain: Option<u64>,
}

impl CommandQueue {
    pub(crate) const fn new(handle: Handle) -> Self {
        Self { handle, waiting: VecDeque::new(), taken: 0, catalogs: 0, taken_with_drain: None }
    }

    /// Queues a command.
    pub(crate) fn push(&mut self, notice: ServerCommand) {
        self.waiting.push_back(notice);
    }

    /// Queues a command in front of the others, as a signal would.
    pub(crate) fn push_front(&mut self, notice: ServerCommand) {
        self.waiting.push_front(notice);
    }

    /// Passes on what the server can take now; returns `true` if that included the first drain.
    pub(crate) fn send_pending(&mut self) -> bool {
        let had_drained = self.taken_with_drain.is_some();
        while let Some(notice) = self.waiting.front() {
            let taken = match notice {
                ServerCommand::Drain => self.handle.try_drain(),
                ServerCommand::ReloadLimits(options) => self.handle.try_reload_limits(options),
                ServerCommand::ReplaceCatalog(catalog) => self.handle.try_replace_catalog(catalog),
            };
            if taken == Err(Busy) {
                break;
            }
            self.taken += 1;
            match self.waiting.pop_front() {
                Some(ServerCommand::Drain) => {
                    self.taken_with_drain.get_or_insert(self.taken);
                }
                Some(ServerCommand::ReplaceCatalog(_)) => self.catalogs += 1,
                _ => {}
            }
        }
        // Busy or not: what found no room is retried in every round.
        self.handle.try_flush().unwrap_or(());
        !had_drained && self.taken_with_drain.is_some()
    }

    /// Checks how many commands a shard had read when it ended.
    ///
    /// # Errors
    ///
    /// More than were taken, or fewer than it needed to drain; `ends_with_input` needs none.
    pub(crate) fn check(&self, read: u64, ends_with_input: bool) -> Result<(), String> {
        let least = if ends_with_input { 0 } else { self.taken_with_drain.unwrap_or(u64::MAX) };
        let most = self.taken + self.catalogs;
        if read < least || read > most {
            return Err(format!("{read} commands were read, expected {least} to {most}"));
        }
        Ok(())
    }
}
