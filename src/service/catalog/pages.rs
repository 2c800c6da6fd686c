//! Pages of a list, and their cursors.
//!
//! A cursor contains a fingerprint of the list, so that a cursor of another list, of other entries
//! or of another page size is rejected instead of continuing in the wrong place. The same catalog
//! in another process issues the same cursors: behind a load balancer any process can continue.

use std::ops::Range;

use corelane_protocol::error::Error;
use corelane_protocol::model::ListKind;

use crate::service::hash::Fnv;

/// Division of a list into pages.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// Cursor of each page but the first.
    cursors: Box<[Box<str>]>,
    count: usize,
    page_size: usize,
}

impl Pages {
    /// Divides the list of `names` into pages of `page_size` entries (at least one). An empty list
    /// has one empty page.
    pub(super) fn new<'n>(
        listed: ListKind,
        names: impl ExactSizeIterator<Item = &'n str>,
        page_size: usize,
    ) -> Self {
        let page_size = page_size.max(1);
        let count = names.len();
        let start = Fnv::new().update(&[listed as u8]).update(&page_size.to_le_bytes());
        let fingerprint =
            names.fold(start, |hash, name| hash.update(name.as_bytes()).update(b"\n"));
        let fingerprint = fingerprint.value() >> 32;
        let cursor = |index| format!("{fingerprint:08x}-{index:x}").into();
        let cursors = (1..count.div_ceil(page_size)).map(cursor).collect();
        Self { cursors, count, page_size }
    }

    /// Number of pages; never zero.
    pub(super) const fn count(&self) -> usize {
        self.cursors.len() + 1
    }

    /// Indices of the entries on page `index`.
    pub(super) const fn entry_range(&self, index: usize) -> Range<usize> {
        let start = index * self.page_size;
        let end = start + self.page_size;
        start..if end < self.count { end } else { self.count }
    }

    /// Cursor of the page after `index`, or `None` if it is the last one.
    pub(super) fn next_cursor(&self, index: usize) -> Option<&str> {
        self.cursors.get(index).map(|cursor| &**cursor)
    }

    /// The page of `cursor`, or the first page without one. Fails with invalid params (-32602) if
    /// the cursor was not issued by these pages.
    ///
    /// Source: MCP 2026-07-28, server/utilities/pagination, "Error Handling".
    pub(super) fn page_of_cursor(&self, cursor: Option<&str>) -> Result<usize, Error> {
        let Some(cursor) = cursor else { return Ok(0) };
        // The cursor is only a position; comparing the issued cursor there validates it.
        let index = cursor.split_once('-').and_then(|(_, index)| {
            let index = usize::from_str_radix(index, 16).ok()?.checked_sub(1)?;
            (self.next_cursor(index)? == cursor).then_some(index)
        });
        match index {
            Some(index) => Ok(index + 1),
            None => {
                Err(Error::invalid_params("params.cursor is invalid: list again from the start"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

    #[test]
    fn cursors_lead_to_their_pages() {
        let pages = Pages::new(ListKind::Tools, NAMES.into_iter(), 2);
        assert_eq!(pages.count(), 3);
        assert_eq!(pages.page_of_cursor(None).unwrap(), 0);
        for index in 0..2 {
            let cursor = pages.next_cursor(index).unwrap();
            assert_eq!(pages.page_of_cursor(Some(cursor)).unwrap(), index + 1);
        }
        assert_eq!(pages.next_cursor(2), None);
    }

    #[test]
    fn pages_contain_every_entry_once() {
        for page_size in 1..7 {
            let pages = Pages::new(ListKind::Tools, NAMES.into_iter(), page_size);
            let entries: Vec<usize> =
                (0..pages.count()).flat_map(|index| pages.entry_range(index)).collect();
            assert_eq!(entries, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn empty_list_has_one_empty_page() {
        let pages = Pages::new(ListKind::Tools, [].into_iter(), 2);
        assert_eq!(
            (pages.count(), pages.page_of_cursor(None).unwrap(), pages.entry_range(0)),
            (1, 0, 0..0)
        );
    }

    #[test]
    fn forged_cursor_is_rejected() {
        let pages = Pages::new(ListKind::Tools, NAMES.into_iter(), 2);
        let issued = pages.next_cursor(0).unwrap();
        let (fingerprint, _) = issued.split_once('-').unwrap();
        let forged = ["", "-", "1", "x-1", "00000000-1", "ффф-1", "-1-"].map(String::from);
        let respelled = ["0", "3", "+1", "01", "1 ", "", "ffffffffffffffffff"];
        let respelled = respelled.map(|index| format!("{fingerprint}-{index}"));
        for cursor in forged.iter().chain(&respelled) {
            assert_eq!(pages.page_of_cursor(Some(cursor)).unwrap_err().code, -32602, "{cursor}");
        }
    }

    #[test]
    fn cursor_of_another_list_is_rejected() {
        let pages = Pages::new(ListKind::Tools, NAMES.into_iter(), 2);
        let cursor = pages.next_cursor(0).unwrap();
        for other in [
            Pages::new(ListKind::Tools, NAMES.into_iter(), 3),
            Pages::new(ListKind::Prompts, NAMES.into_iter(), 2),
            Pages::new(ListKind::Tools, ["a", "b", "c", "d", "f"].into_iter(), 2),
            Pages::new(ListKind::Tools, ["ab", "c", "d", "e"].into_iter(), 2),
        ] {
            assert!(other.page_of_cursor(Some(cursor)).is_err());
        }
    }
}
