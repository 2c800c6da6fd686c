//! Servers in the thread of their client: raw messages of an in-process connection, and the client
//! for tests of tools.

mod caller_logs;
mod callers;
mod calls;
mod client_mistakes;
mod connection;
mod lifetime;
mod request_context;
mod test_client;
mod tools;
