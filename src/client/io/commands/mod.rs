//! What other threads ask of the I/O thread, and what it asks of itself.

mod command;

mod call_batch;

pub(super) mod connect_job;
pub(super) mod own_commands;

mod ring_connector;

mod connector;

pub(super) use self::call_batch::CallBatch;
pub(super) use self::command::{Command, NewCall, PeerId, SHARD};
pub(super) use self::connector::Connector;
