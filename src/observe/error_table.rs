//! Errors by code, in a table that cannot grow.
//!
//! What it keeps true: a row, once taken by a code, stays that code's; counts are never lost, only
//! their code is when the rows are used up. It does not know what a code means.

/// How often each error code was sent: a table of [`ErrorTable::CODES_MAX`] codes and one row for
/// whatever does not fit, so that a handler which invents codes cannot grow it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ErrorTable {
    rows: [(i32, u64); Self::CODES_MAX],
    others: u64,
}

impl ErrorTable {
    /// Codes told apart. The protocol and the engine use 13; the rest is for handlers.
    pub const CODES_MAX: usize = 24;

    /// Counts one error.
    pub fn count(&mut self, code: i32) {
        self.count_many(code, 1);
    }

    /// Counted errors with `code`; zero where the code found no row.
    pub fn of(&self, code: i32) -> u64 {
        self.iter().find(|(known, _)| *known == code).map_or(0, |(_, count)| count)
    }

    /// Errors whose code found no row.
    pub const fn others(&self) -> u64 {
        self.others
    }

    /// Every error counted.
    pub fn total(&self) -> u64 {
        self.others + self.iter().map(|(_, count)| count).sum::<u64>()
    }

    /// Codes with their counts, in the order in which they were first met.
    pub fn iter(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        self.rows.iter().copied().take_while(|(_, count)| *count > 0)
    }

    /// Adds what another table has counted.
    pub fn add(&mut self, other: &Self) {
        for (code, count) in other.iter() {
            self.count_many(code, count);
        }
        self.others += other.others;
    }

    fn count_many(&mut self, code: i32, many: u64) {
        match self.rows.iter_mut().find(|(known, count)| *count == 0 || *known == code) {
            Some(row) => *row = (code, row.1 + many),
            None => self.others += many,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_error_codes_end_in_one_row() {
        let mut errors = ErrorTable::default();
        for code in 0..1000 {
            errors.count(code);
            errors.count(0);
        }
        assert_eq!(errors.of(0), 1001);
        assert_eq!(errors.iter().count(), ErrorTable::CODES_MAX);
        assert_eq!(errors.total(), 2000);
        assert_eq!(errors.others(), 1000 - ErrorTable::CODES_MAX as u64);
        let mut sum = errors;
        sum.add(&errors);
        assert_eq!(sum.total(), 4000);
    }
}
