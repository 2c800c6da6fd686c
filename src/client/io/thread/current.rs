//! The I/O of the calling thread, and the driver of clients on a shard of a server.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use corelane_engine::driver_pair::{AttachedDriver, DriverFactory};
use corelane_engine::mesh::{MeshOptions, build_mesh};
use corelane_engine::ring::Waker;

use super::{IoThread, RING_OPTIONS, Shared};
use crate::io::commands::{Command, Connector, own_commands};
use crate::io::driver::IoDriver;

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
fn set_shard(io: IoThread) {
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

/// Has each shard of a server drive clients.
#[derive(Debug)]
pub struct ShardIo;

/// Commands of other threads that may wait; those of the shard itself do not count.
const COMMANDS_MAX: u32 = 1_024;

impl DriverFactory for ShardIo {
    fn create(&self, waker: Waker) -> Box<dyn AttachedDriver> {
        let options = MeshOptions { inbox_messages_max: COMMANDS_MAX, ..MeshOptions::default() };
        let (mut endpoints, commands) = build_mesh(1, &options);
        let endpoint = endpoints.pop().expect("a mesh of one shard has one endpoint");
        let driver = IoDriver::new(
            endpoint.open(waker.clone()),
            commands.clone(),
            waker,
            Connector::with_threads(),
        );
        set_shard(IoThread::new(Shared::new(commands, false)));
        Box::new(driver)
    }

    fn sockets_max(&self) -> u32 {
        RING_OPTIONS.sockets_max
    }
}

impl AttachedDriver for IoDriver {
    fn begin_stop(&mut self) {
        // Fails if the thread is ending.
        own_commands::push(Command::Stop).unwrap_or(());
    }
}
