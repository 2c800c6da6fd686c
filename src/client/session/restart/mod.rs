//! Sessions that are begun again: what outlives a connection, a session of the server, a login.

pub(in crate::client) mod renewal;
pub(in crate::client) mod suspension;
