//! The server over HTTP: sessions, streams and connections that are cut at any moment.
//!
//! `speech` is what clients say, `reading` how they read answers, `book` what one session may hear,
//! `chronicle` what all know together, `line` one connection, `guest` one client with all its
//! connections, `chores` what it asks for besides work, `ear` what it hears, `offer` what the server
//! offers them, `evening` a run, `seeds` which are run.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is drawn or counted here is small"
)]
#![expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#![expect(clippy::match_same_arms, reason = "each row of a table has a reason of its own")]

mod offer;

mod speech;

mod reading;

mod book;

mod chronicle;

mod relay;

mod line;

mod plan;

mod guest;

mod pairs;

mod chores;

mod ear;

mod evening;

mod damage;

mod crowds;

mod canaries;

mod breaks;

mod scenes;

pub(crate) mod seeds;

pub(crate) use self::evening::run;
pub(crate) use self::plan::Plan;
