//! What is said on one connection, and what the answers are worth.
//!
//! A [`Call`] is one kind of request, ready to be written with any id; an [`Opening`] is what has
//! to be said before the first; [`Books`] match answers with requests and judge them; a [`Parting`]
//! is what is said last. All of it is bytes in and bytes out.
//!
//! What it keeps true: a request is concluded once, as answered or as failed; an answer that is not
//! to the byte what the last right one was is read in full before it counts.

pub mod field;

pub mod call;
pub mod judge;
mod model;

pub mod calls;
mod flights;
pub mod ledger;

pub mod books;
pub mod opening;
pub mod parting;

pub mod subscription;

pub mod listening;

pub use self::books::Books;
pub use self::call::{Call, Speech};
pub use self::calls::Calls;
pub use self::field::{Field, Secret};
pub use self::ledger::{Concluded, Event};
pub use self::listening::{Hearing, Listening};
pub use self::opening::{Opening, Progress, Refused};
pub use self::parting::{Goodbye, Parting};
pub use self::subscription::{Subject, Subscription};
