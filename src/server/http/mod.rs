//! HTTP at the server: what a connection that speaks it is served.

mod page;
