//! Units: how a number is written, and between which bounds it lies.
//!
//! What it keeps true: [`Unit::write`] and [`Unit::number`] are inverse to each other; a unit is
//! always said when a number is refused. Suffixes with two meanings (`64K`, `5m`) are refused
//! with both spellings instead of guessed.

use crate::config::problem::Refusal;

/// What a value of an option is counted in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// An address with its port, or `off`.
    Address,
    /// Bytes.
    Bytes {
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
    },
    /// Bytes, or `off`, which is `u32::MAX`.
    BytesOrOff {
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Things.
    Count {
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
    },
    /// Things, or `auto`.
    CountOrAuto {
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
    },
    /// A list of cpus, or `auto`.
    Cpus {
        /// The highest number that is accepted.
        most: u64,
    },
    /// A directory, or `off`.
    Directory,
    /// A list of hosts that requests may name, or `default` for none.
    Hosts,
    /// Milliseconds.
    Milliseconds {
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
    },
    /// A list of origins that pages may have, or `default` for none.
    Origins,
    /// True or false.
    Switch,
    /// The path of a URL, or `off`.
    UrlPath,
}

impl Unit {
    /// The number in `text`, suffix applied and bounds checked.
    pub fn number(&self, text: &str) -> Result<u64, Refusal> {
        let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '_');
        let (digits, suffix) = text.split_at(split.unwrap_or(text.len()));
        let digits = digits.replace('_', "");
        let factor = self.factor(suffix.trim_start());
        let (false, Some(factor)) = (digits.is_empty(), factor) else {
            return Err(Refusal::new(format!("{text:?} is not {}", self.noun()), self.shape()));
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        let (least, most) = self.bounds();
        match number {
            Some(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(self.out_of_range(text)),
        }
    }

    /// The refusal of a number outside the bounds.
    pub fn out_of_range(&self, text: &str) -> Refusal {
        let (least, most) = self.bounds();
        Refusal::new(
            format!("{text} is out of range"),
            format!("write a value from {} to {}", self.write(least), self.write(most)),
        )
    }

    /// A number the way people write it: with the largest suffix that keeps it whole.
    pub fn write(&self, number: u64) -> String {
        let suffixes: &[(&str, u64)] = match self {
            Self::Bytes { .. } | Self::BytesOrOff { .. } => &SIZES,
            Self::Milliseconds { .. } => &SPANS,
            _ => &[],
        };
        let fits = |factor: u64| number >= factor && number.is_multiple_of(factor);
        match suffixes.iter().rev().find(|(_, factor)| fits(*factor)) {
            Some((suffix, factor)) => format!("{}{suffix}", number / factor),
            None if matches!(self, Self::Milliseconds { .. }) => format!("{number}ms"),
            None => number.to_string(),
        }
    }

    /// What stands for a value in help: `SIZE`, `true|false`.
    pub fn placeholder(&self) -> String {
        match self {
            Self::Address => "ADDR|off".to_owned(),
            Self::Bytes { .. } => "SIZE".to_owned(),
            Self::BytesOrOff { .. } => "SIZE|off".to_owned(),
            Self::Choice(words) => words.join("|"),
            Self::Count { .. } => "N".to_owned(),
            Self::CountOrAuto { .. } => "N|auto".to_owned(),
            Self::Cpus { .. } => "LIST|auto".to_owned(),
            Self::Directory => "DIR|off".to_owned(),
            Self::Hosts | Self::Origins => "LIST|default".to_owned(),
            Self::Milliseconds { .. } => "TIME".to_owned(),
            Self::Switch => "true|false".to_owned(),
            Self::UrlPath => "PATH|off".to_owned(),
        }
    }

    /// What a value is called in a sentence.
    pub const fn noun(&self) -> &'static str {
        match self {
            Self::Address => "an address with its port",
            Self::Bytes { .. } | Self::BytesOrOff { .. } => "a size",
            Self::Choice(_) => "one of its words",
            Self::Count { .. } | Self::CountOrAuto { .. } => "a whole number",
            Self::Cpus { .. } => "a list of cpus",
            Self::Directory => "the path of a directory",
            Self::Hosts => "a list of hosts",
            Self::Milliseconds { .. } => "a time",
            Self::Origins => "a list of origins",
            Self::Switch => "true or false",
            Self::UrlPath => "the path of a URL",
        }
    }

    /// Whether a value is a list of names.
    pub const fn is_names(&self) -> bool {
        matches!(self, Self::Hosts | Self::Origins)
    }

    /// The least and the most that a number may be; everything where the value is no number.
    pub const fn bounds(&self) -> (u64, u64) {
        match *self {
            Self::Bytes { least, most }
            | Self::BytesOrOff { least, most }
            | Self::Count { least, most }
            | Self::CountOrAuto { least, most }
            | Self::Milliseconds { least, most } => (least, most),
            Self::Cpus { most } => (0, most),
            Self::Address
            | Self::Choice(_)
            | Self::Directory
            | Self::Hosts
            | Self::Origins
            | Self::Switch
            | Self::UrlPath => (0, u64::MAX),
        }
    }

    /// How a value is written, for remedies.
    pub const fn shape(&self) -> &'static str {
        match self {
            Self::Address => "write it as 127.0.0.1:8888, [::1]:8888 or off",
            Self::Bytes { .. } => "write bytes, or a size such as 64KiB, 16MiB or 1GiB",
            Self::BytesOrOff { .. } => "write bytes, a size such as 64KiB, or off",
            Self::Choice(_) => "write one of its words",
            Self::Count { .. } => "write digits",
            Self::CountOrAuto { .. } => "write digits, or auto",
            Self::Cpus { .. } => "write a list such as 0,2-5, or auto",
            Self::Directory => "write the path of a directory in quotes, or off",
            Self::Hosts => "write a list such as mcp.example.com,192.0.2.1:8080, or default",
            Self::Milliseconds { .. } => {
                "write milliseconds, or a time such as 500ms, 30s, 5min, 1h or 1d"
            }
            Self::Origins => {
                "write a list such as https://app.example.com,http://dev.example:*, or default"
            }
            Self::Switch => "write true or false",
            Self::UrlPath => "write a path such as /mcp/ws, or off",
        }
    }

    /// What one of `suffix` is worth in this unit.
    fn factor(&self, suffix: &str) -> Option<u64> {
        if suffix.is_empty() {
            return Some(1);
        }
        match self {
            Self::Bytes { .. } | Self::BytesOrOff { .. } => match suffix {
                "B" => Some(1),
                "kB" | "KB" => Some(1000),
                "MB" => Some(1_000_000),
                "GB" => Some(1_000_000_000),
                _ => SIZES.iter().find(|(known, _)| *known == suffix).map(|(_, factor)| *factor),
            },
            Self::Milliseconds { .. } if suffix == "ms" => Some(1),
            Self::Milliseconds { .. } => {
                SPANS.iter().find(|(known, _)| *known == suffix).map(|(_, factor)| *factor)
            }
            _ => None,
        }
    }
}

const SIZES: [(&str, u64); 4] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
const SPANS: [(&str, u64); 4] = [("s", 1000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Unit = Unit::Bytes { least: 1, most: u64::MAX };
    const TIME: Unit = Unit::Milliseconds { least: 0, most: u64::MAX };
    const COUNT: Unit = Unit::Count { least: 1, most: 100 };

    #[test]
    fn sizes_and_times_are_read_with_their_suffixes() {
        for (text, bytes) in [
            ("64KiB", 65_536),
            ("16MiB", 16 << 20),
            ("16 MiB", 16 << 20),
            ("1_000", 1000),
            ("65536", 65_536),
            ("10kB", 10_000),
            ("7B", 7),
        ] {
            assert_eq!(BYTES.number(text), Ok(bytes), "{text}");
        }
        for (text, span) in [("5min", 300_000), ("30s", 30_000), ("250", 250), ("250ms", 250)] {
            assert_eq!(TIME.number(text), Ok(span), "{text}");
        }
    }

    #[test]
    fn what_has_two_meanings_is_refused_with_a_remedy() {
        for (unit, text) in [
            (BYTES, "64K"),
            (BYTES, "1.5MiB"),
            (BYTES, "-1"),
            (BYTES, ""),
            (BYTES, "_"),
            (BYTES, "KiB"),
            (BYTES, "64KiBs"),
            (TIME, "5m"),
            (TIME, "five minutes"),
            (COUNT, "10s"),
            (COUNT, "0x10"),
        ] {
            let refusal = unit.number(text).unwrap_err();
            assert_eq!(refusal.remedy, unit.shape(), "{text}");
        }
    }

    #[test]
    fn a_number_out_of_range_names_the_range() {
        for text in ["0", "101", "99999999999999999999999"] {
            assert_eq!(COUNT.number(text).unwrap_err().remedy, "write a value from 1 to 100");
        }
        assert!(BYTES.number("99999999999GiB").unwrap_err().what.ends_with("out of range"));
    }

    #[test]
    fn what_is_written_reads_back() {
        for number in [0, 1, 999, 1000, 1024, 60_000, 90_000, 65_536, 86_400_000, 1 << 40, 12_345] {
            assert_eq!(TIME.number(&TIME.write(number)), Ok(number));
            assert_eq!(BYTES.number(&BYTES.write(number.max(1))), Ok(number.max(1)));
        }
        assert_eq!(TIME.write(90_000), "90s");
        assert_eq!(TIME.write(0), "0ms");
    }
}
