//! Access to files below a root: names, metadata, contents.
//!
//! Invariants: all file access on behalf of a client goes through [`Root`], which opens only what
//! lies beneath it. This module does not depend on the catalog.

mod relative_path;

mod root;

mod listing;

mod content;

pub(super) use self::content::{FileContent, FileRange, ReadError};
pub(super) use self::listing::{Listing, ScanLimits};
pub(super) use self::relative_path::{RelativePath, RootUri};
pub(super) use self::root::{FileMetadata, Root};
