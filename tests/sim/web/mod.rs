//! The server over HTTP: sessions, streams and connections that are cut at any moment.
//!
//! `speech` is what clients say, `reading` how they read answers, `book` what one session may hear,
//! `line` one connection, `guest` one client with all its connections, `offer` what the server
//! offers them, `evening` a run, `seeds` which are run.

mod offer;

mod speech;

mod reading;

mod book;

mod line;

mod plan;

mod guest;

mod ear;

mod evening;

mod damage;

mod canaries;

mod scenes;

pub(crate) mod seeds;

pub(crate) use self::evening::run;
pub(crate) use self::plan::Plan;
