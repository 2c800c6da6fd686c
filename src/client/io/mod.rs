//! The thread that moves the bytes of clients: one ring, many servers.

mod call_slot;
mod process;

mod peer_handle;
mod stream;
mod task;

mod tunnel;

mod connect;

mod commands;
mod input_tasks;

mod http;

mod messages;

mod link;
mod workspace;

mod peer;

mod driver;

mod thread;

pub(in crate::client) use self::call_slot::{CallCallbacks, CallOutcome, CallSlot};
#[cfg(feature = "internals")]
pub use self::driver::IoDriver;
#[cfg(feature = "internals")]
pub use self::messages::WebSocketEcho;
pub(in crate::client) use self::peer_handle::{ConnectOptions, ConnectionCallback, PeerHandle};
pub(in crate::client) use self::process::ProgramCallback;
pub use self::process::ProgramEvent;
pub use self::task::IoTask;
pub use self::thread::IoThread;
pub(in crate::client) use self::thread::{PeerRef, ShardIo};
