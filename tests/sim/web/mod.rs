//! The server over HTTP: sessions, streams and connections that are cut at any moment.
//!
//! `offer` is what the server offers, `plan` what is to happen, `client` who comes and `checks`
//! what must hold; `evening` is a run, `seeds` which are run. `hostile` is what breaks on purpose,
//! `scenes` are written by hand.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is drawn or counted here is small"
)]
#![expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#![expect(clippy::match_same_arms, reason = "each row of a table has a reason of its own")]

mod offer;

mod hostile;

mod checks;

mod client;

mod plan;

mod evening;

mod scenes;

pub(crate) mod seeds;

pub(crate) use self::evening::run;
pub(crate) use self::plan::Plan;
