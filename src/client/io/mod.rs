//! The thread that moves the bytes of clients: one ring, many servers.

mod call_slot;
mod process;

mod loss;
mod peer_settings;

mod tasks;
mod tunnel;

mod connect;

mod commands;

mod workspace;

mod http;

mod messages;

mod link;

mod peer_io;
mod protocol;

mod mcp;
mod parity;
mod peer;

mod connector;

mod driver;

mod thread;

pub(super) use self::call_slot::{CallCallbacks, CallOutcome, CallSlot};
pub use self::commands::ParityEvent;
pub(super) use self::commands::{ChunkCallback, NewParityPeer, ParityEventCallback, ParitySlot};
pub use self::driver::IoDriver;
#[cfg(feature = "test-support")]
pub use self::messages::WebSocketEcho;
pub(super) use self::peer_settings::{
    ConnectOptions, ConnectionCallback, PeerSettings, RetryCallback,
};
pub(super) use self::process::ProgramCallback;
pub use self::process::ProgramEvent;
#[cfg(feature = "supervised")]
pub use self::process::supervise_programs;
pub use self::tasks::IoTask;
pub use self::thread::IoThread;
pub(super) use self::thread::{ParityPeerRef, PeerRef, ShardIo};
