//! Pages of a list, and the cursors between them.
//!
//! What it keeps true: a cursor names a page of the catalog that issued it. A cursor of another
//! list, or of a catalog with other entries or another page length, is unknown here, even where it
//! looks alike, so that a client never continues one list in the middle of another. The same
//! catalog in another process issues the same cursors: behind a balancer any of them goes on.

use std::ops::Range;

use crate::protocol::error::Error;
use crate::protocol::message::Listed;
use crate::service::fnv::Fnv;

/// How a list of a catalog is cut into pages.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// The cursor that leads to each page but the first.
    cursors: Box<[Box<str>]>,
    count: usize,
    length_max: usize,
}

impl Pages {
    /// Cuts the list of `names` into pages of `length_max` (at least one). An empty list has one
    /// empty page.
    pub(super) fn cut<'n>(
        listed: Listed,
        names: impl ExactSizeIterator<Item = &'n str>,
        length_max: usize,
    ) -> Self {
        let length_max = length_max.max(1);
        let count = names.len();
        let start = Fnv::new().and(&[listed as u8]).and(&length_max.to_le_bytes());
        let fingerprint = names.fold(start, |hash, name| hash.and(name.as_bytes()).and(b"\n"));
        let fingerprint = fingerprint.value() >> 32;
        let cursor = |index| format!("{fingerprint:08x}-{index:x}").into();
        let cursors = (1..count.div_ceil(length_max)).map(cursor).collect();
        Self { cursors, count, length_max }
    }

    /// How many pages there are; never zero.
    pub(super) const fn count(&self) -> usize {
        self.cursors.len() + 1
    }

    /// The places of the entries on page `index`.
    pub(super) const fn entries(&self, index: usize) -> Range<usize> {
        let start = index * self.length_max;
        let end = start + self.length_max;
        start..if end < self.count { end } else { self.count }
    }

    /// The cursor that leads to the page after `index`, where there is one.
    pub(super) fn next_cursor(&self, index: usize) -> Option<&str> {
        self.cursors.get(index).map(|cursor| &**cursor)
    }

    /// The page that `cursor` leads to; the first without one. Fails with invalid params (-32602)
    /// where [`Pages::next_cursor`] never said it.
    ///
    /// Source: 2026-07-28, server/utilities/pagination, "Error Handling".
    pub(super) fn find(&self, cursor: Option<&str>) -> Result<usize, Error> {
        let Some(cursor) = cursor else { return Ok(0) };
        // The cursor says where to look, and only what stands there says that it was issued.
        let place = cursor.split_once('-').and_then(|(_, index)| {
            let place = usize::from_str_radix(index, 16).ok()?.checked_sub(1)?;
            (self.next_cursor(place)? == cursor).then_some(place)
        });
        match place {
            Some(place) => Ok(place + 1),
            None => Err(Error::invalid_params("unknown cursor: list again from the start")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

    #[test]
    fn each_cursor_leads_to_its_page() {
        let pages = Pages::cut(Listed::Tools, NAMES.into_iter(), 2);
        assert_eq!(pages.count(), 3);
        assert_eq!(pages.find(None).unwrap(), 0);
        for index in 0..2 {
            let cursor = pages.next_cursor(index).unwrap();
            assert_eq!(pages.find(Some(cursor)).unwrap(), index + 1);
        }
        assert_eq!(pages.next_cursor(2), None);
    }

    #[test]
    fn pages_hold_every_entry_once() {
        for length_max in 1..7 {
            let pages = Pages::cut(Listed::Tools, NAMES.into_iter(), length_max);
            let told: Vec<usize> =
                (0..pages.count()).flat_map(|index| pages.entries(index)).collect();
            assert_eq!(told, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn an_empty_list_has_one_empty_page() {
        let pages = Pages::cut(Listed::Tools, [].into_iter(), 2);
        assert_eq!((pages.count(), pages.find(None).unwrap(), pages.entries(0)), (1, 0, 0..0));
    }

    #[test]
    fn a_cursor_that_was_not_issued_is_unknown() {
        let pages = Pages::cut(Listed::Tools, NAMES.into_iter(), 2);
        let issued = pages.next_cursor(0).unwrap();
        let (fingerprint, _) = issued.split_once('-').unwrap();
        let forged = ["", "-", "1", "x-1", "00000000-1", "ффф-1", "-1-"].map(String::from);
        let respelled = ["0", "3", "+1", "01", "1 ", "", "ffffffffffffffffff"];
        let respelled = respelled.map(|index| format!("{fingerprint}-{index}"));
        for cursor in forged.iter().chain(&respelled) {
            assert_eq!(pages.find(Some(cursor)).unwrap_err().code, -32602, "{cursor}");
        }
    }

    #[test]
    fn a_cursor_of_another_catalog_is_unknown() {
        let pages = Pages::cut(Listed::Tools, NAMES.into_iter(), 2);
        let cursor = pages.next_cursor(0).unwrap();
        for other in [
            Pages::cut(Listed::Tools, NAMES.into_iter(), 3),
            Pages::cut(Listed::Prompts, NAMES.into_iter(), 2),
            Pages::cut(Listed::Tools, ["a", "b", "c", "d", "f"].into_iter(), 2),
            Pages::cut(Listed::Tools, ["ab", "c", "d", "e"].into_iter(), 2),
        ] {
            assert!(other.find(Some(cursor)).is_err());
        }
    }
}
