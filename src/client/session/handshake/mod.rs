//! The handshake: what the client may use, what the server declares, and what follows.

mod options;
mod server_info;

mod negotiation;

pub(super) use self::negotiation::{
    FailedDiscover, NextStep, after_discover, after_discover_failure, after_initialize,
    handshake_error,
};
pub use self::options::{EraPreference, SessionOptions};
pub use self::server_info::ServerInfo;
