//! The disk below a root: names, facts, contents, and no way out.
//!
//! What it keeps true: everything that touches the disk on behalf of a client goes through
//! [`Root`], which opens what lies beneath it and nothing else. This room knows no catalog.

mod place;

mod facts;

mod beneath;

mod listing;

mod portion;

pub(super) use self::beneath::Root;
pub(super) use self::facts::Facts;
pub(super) use self::listing::{Bounds, Listing};
pub(super) use self::place::{Address, Place};
pub(super) use self::portion::{Portion, Range, Stopped};
