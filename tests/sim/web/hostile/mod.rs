//! What breaks on purpose: the server itself, what is said to it, and how much of that there is.
//!
//! `relay` stands between the server and its clients and breaks one thing, `breaks` shows that a
//! run notices; `damage` says what is damaged, `crowds` comes by the thousand.

pub(crate) mod relay;

mod breaks;

mod damage;

mod crowds;
