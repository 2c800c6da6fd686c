//! The shards of one server side by side in a simulated world, whatever clients say to them.
//!
//! `watched` is a ring under observation, `wire` a client's side of a connection, `lane` one shard,
//! `street` all of them and the time that passes, `notices` what the server is told from outside.

pub(crate) mod watched;

pub(crate) mod wire;

pub(crate) mod lane;

pub(crate) mod street;

pub(crate) mod notices;
