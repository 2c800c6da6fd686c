//! Sessions that are begun again: what outlives a connection, a session of the server, a login.

mod renewal;
mod suspension;
