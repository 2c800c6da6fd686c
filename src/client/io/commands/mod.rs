//! What other threads ask of the I/O thread, and what it asks of itself.

mod command;

pub(super) mod connect_job;
pub(super) mod own_commands;

mod ring_connector;

mod connector;

pub(super) use self::command::{CallBatch, Command, NewCall, PeerId, SHARD};
pub(super) use self::connector::Connector;
