//! The I/O of the calling thread.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use super::{IoThread, Shared};

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current::None) };
}

/// What drives clients on a thread.
enum Current {
    None,
    /// A thread that ends with its last handle.
    Thread(Weak<Shared>),
    /// A shard of a server, which ends with its server.
    Shard(IoThread),
}

/// Sets the I/O of the calling thread, an I/O thread.
pub(super) fn set_thread(thread: &IoThread) {
    CURRENT.set(Current::Thread(Arc::downgrade(&thread.shared)));
}

/// Sets the I/O of the calling thread, a shard.
pub(super) fn set_shard(io: IoThread) {
    CURRENT.set(Current::Shard(io));
}

/// Returns whether the calling thread does I/O.
pub(super) fn is_set() -> bool {
    with(|current| !matches!(current, Current::None)).unwrap_or(false)
}

/// Returns the I/O of the calling thread.
pub(super) fn get() -> Option<IoThread> {
    with(|current| match current {
        Current::None => None,
        Current::Thread(shared) => shared.upgrade().map(|shared| IoThread { shared }),
        Current::Shard(io) => Some(io.clone()),
    })
    .flatten()
}

/// Returns the I/O of the calling thread if that is a shard.
pub(super) fn shard() -> Option<IoThread> {
    with(|current| match current {
        Current::Shard(io) => Some(io.clone()),
        Current::None | Current::Thread(_) => None,
    })
    .flatten()
}

/// Reads the I/O of the calling thread; `None` if the thread is ending.
fn with<O>(read: impl FnOnce(&Current) -> O) -> Option<O> {
    CURRENT.try_with(|current| read(&current.borrow())).ok()
}
