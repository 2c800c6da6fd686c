//! Counts of JSON-RPC errors by code, in a table of fixed size.
//!
//! A row keeps its code once assigned. Errors whose code finds no free row are counted together.

/// Counts of errors sent, by code: [`ErrorTable::CODES_MAX`] codes and one count for all others, so
/// that handlers with arbitrary codes cannot grow it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ErrorTable {
    rows: [(i32, u64); Self::CODES_MAX],
    other_codes: u64,
}

impl ErrorTable {
    /// Distinct codes counted. The protocol and the engine use 15; the rest is for handlers.
    pub const CODES_MAX: usize = 24;

    /// Counts one error with `code`.
    pub fn count(&mut self, code: i32) {
        self.count_many(code, 1);
    }

    /// Returns the errors counted with `code`; zero if the code has no row.
    pub fn count_of(&self, code: i32) -> u64 {
        self.iter().find(|(known, _)| *known == code).map_or(0, |(_, count)| count)
    }

    /// Returns the errors whose code found no free row.
    pub const fn other_codes(&self) -> u64 {
        self.other_codes
    }

    /// Returns all errors counted.
    pub fn total(&self) -> u64 {
        self.other_codes + self.iter().map(|(_, count)| count).sum::<u64>()
    }

    /// Iterates over codes and counts, in order of first occurrence.
    pub fn iter(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        self.rows.iter().copied().take_while(|(_, count)| *count > 0)
    }

    /// Adds the counts of another table.
    pub fn add(&mut self, other: &Self) {
        for (code, count) in other.iter() {
            self.count_many(code, count);
        }
        self.other_codes += other.other_codes;
    }

    fn count_many(&mut self, code: i32, many: u64) {
        match self.rows.iter_mut().find(|(known, count)| *count == 0 || *known == code) {
            Some(row) => *row = (code, row.1 + many),
            None => self.other_codes += many,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_error_codes_are_counted_together() {
        let mut errors = ErrorTable::default();
        for code in 0..1000 {
            errors.count(code);
            errors.count(0);
        }
        assert_eq!(errors.count_of(0), 1001);
        assert_eq!(errors.iter().count(), ErrorTable::CODES_MAX);
        assert_eq!(errors.total(), 2000);
        assert_eq!(errors.other_codes(), 1000 - ErrorTable::CODES_MAX as u64);
        let mut sum = errors;
        sum.add(&errors);
        assert_eq!(sum.total(), 4000);
    }
}
