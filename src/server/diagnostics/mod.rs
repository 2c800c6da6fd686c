//! What a running server reports of itself.

mod config_reloads;
mod connection_list;
mod counter_snapshots;

pub(super) use self::config_reloads::ConfigReloads;
pub(super) use self::connection_list::{
    ConnectionPage, ListPosition, PageBuilder, Rows, SLOTS_PER_TURN, write_page,
};
pub(super) use self::counter_snapshots::{CounterSnapshots, REPLY_TIMEOUT};
