//! Units of option values: notation and range, and what is wrong with a text.
//!
//! Invariants: [`Unit::format`] and [`Unit::parse`] are inverse. Ambiguous suffixes (`64K`, `5m`)
//! are rejected with both spellings in the hint.
//!
//! A suggestion for a misspelled name is always one of the candidates. The same words in another
//! order (`tcp.max_connections`) and the last part of a key (`connections_max`) count as close
//! matches.

/// What is wrong with a value, and how to correct it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Diagnostic {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl Diagnostic {
    /// Creates a diagnostic from what is wrong and what to do.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// Unit and range of an option's value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// An address with its port, or `off`.
    Address,
    /// Bytes.
    Bytes {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
    /// Bytes, or `off` (stored as `u32::MAX`).
    BytesOrOff {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
    /// One of these values.
    Choice(&'static [&'static str]),
    /// A count.
    Count {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
    /// A count, or `auto`.
    CountOrAuto {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
    /// A list of cpus, or `auto`.
    Cpus {
        /// Highest accepted cpu number.
        max: u64,
    },
    /// The demo services.
    Demo,
    /// A directory, or `off`.
    Directory,
    /// The path of a URL.
    EndpointPath,
    /// A file, or `off`.
    File,
    /// A list of files, or `off` for an empty one.
    Files,
    /// A list of values of the `Host` header, or `default` for an empty one.
    Hosts,
    /// Milliseconds.
    Milliseconds {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
    /// A list of values of the `Origin` header, or `default` for an empty one.
    Origins,
    /// A number from 0 to 1, in millionths.
    Ratio,
    /// Milliseconds, of which a number without suffix stands for a thousand.
    Seconds {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
    /// `true` or `false`.
    Switch,
    /// A text of one or more lines, or `default`.
    Text,
    /// The beginning of URIs, with its scheme, or `off`.
    UriPrefix,
    /// The path of a URL, or `off`.
    UrlPath,
    /// A list of texts without commas, or `default` for an empty one.
    Words,
}

impl Unit {
    /// Parses the number in `text` with its suffix.
    ///
    /// # Errors
    ///
    /// The text is not a number of this unit, or it is out of range.
    pub fn parse(&self, text: &str) -> Result<u64, Diagnostic> {
        let split = text.find(|character: char| !character.is_ascii_digit() && character != '_');
        let (digits, suffix) = text.split_at(split.unwrap_or(text.len()));
        let digits = digits.replace('_', "");
        let factor = self.factor(suffix.trim_start());
        let (false, Some(factor)) = (digits.is_empty(), factor) else {
            return Err(Diagnostic::new(
                format!("{text:?} is not {}", self.type_name()),
                self.notation(),
            ));
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        let (least, most) = self.range();
        match number {
            Some(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(self.out_of_range(text)),
        }
    }

    /// Returns the diagnostic for a number out of range.
    pub fn out_of_range(&self, text: &str) -> Diagnostic {
        let (least, most) = self.range();
        Diagnostic::new(
            format!("{text} is out of range"),
            format!("write a value from {} to {}", self.format(least), self.format(most)),
        )
    }

    /// Formats a number with the largest suffix that divides it.
    pub fn format(&self, number: u64) -> String {
        if *self == Self::Ratio {
            let (whole, part) = (number / 1_000_000, number % 1_000_000);
            return format!("{whole}.{part:06}").trim_end_matches('0').trim_end_matches('.').into();
        }
        let suffixes: &[(&str, u64)] = match self {
            Self::Bytes { .. } | Self::BytesOrOff { .. } => &SIZES,
            Self::Milliseconds { .. } | Self::Seconds { .. } => &TIMES,
            _ => &[],
        };
        let fits = |factor: u64| number >= factor && number.is_multiple_of(factor);
        match suffixes.iter().rev().find(|(_, factor)| fits(*factor)) {
            Some((suffix, factor)) => format!("{}{suffix}", number / factor),
            None if matches!(self, Self::Milliseconds { .. } | Self::Seconds { .. }) => {
                format!("{number}ms")
            }
            None => number.to_string(),
        }
    }

    /// Returns the placeholder of a value in `--help`: `SIZE`, `true|false`.
    pub fn placeholder(&self) -> String {
        match self {
            Self::Address => "ADDR|off".to_owned(),
            Self::Bytes { .. } => "SIZE".to_owned(),
            Self::BytesOrOff { .. } => "SIZE|off".to_owned(),
            Self::Choice(words) => words.join("|"),
            Self::Count { .. } => "N".to_owned(),
            Self::CountOrAuto { .. } => "N|auto".to_owned(),
            Self::Cpus { .. } => "LIST|auto".to_owned(),
            Self::Demo => "auto|off|basic|conformance|tools=N,bytes=M".to_owned(),
            Self::Directory => "DIR|off".to_owned(),
            Self::EndpointPath => "PATH".to_owned(),
            Self::File => "FILE|off".to_owned(),
            Self::Files => "FILES|off".to_owned(),
            Self::Hosts | Self::Origins | Self::Words => "LIST|default".to_owned(),
            Self::Milliseconds { .. } | Self::Seconds { .. } => "TIME".to_owned(),
            Self::Ratio => "RATIO".to_owned(),
            Self::Switch => "true|false".to_owned(),
            Self::Text => "TEXT|default".to_owned(),
            Self::UriPrefix => "URI|off".to_owned(),
            Self::UrlPath => "PATH|off".to_owned(),
        }
    }

    /// Returns the type of a value as a noun phrase for messages.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Address => "an address with its port",
            Self::Bytes { .. } | Self::BytesOrOff { .. } => "a size",
            Self::Choice(_) => "one of its values",
            Self::Count { .. } | Self::CountOrAuto { .. } => "a whole number",
            Self::Cpus { .. } => "a list of cpus",
            Self::Demo => "a kind of demo services",
            Self::Directory => "the path of a directory",
            Self::File => "the path of a file",
            Self::Files => "a list of files",
            Self::Hosts => "a list of hosts",
            Self::Milliseconds { .. } | Self::Seconds { .. } => "a time",
            Self::Origins => "a list of origins",
            Self::Ratio => "a number from 0 to 1",
            Self::Switch => "true or false",
            Self::Text => "a text",
            Self::UriPrefix => "the beginning of a URI",
            Self::EndpointPath | Self::UrlPath => "the path of a URL",
            Self::Words => "a list of texts",
        }
    }

    /// Returns whether a value is a path.
    pub const fn is_path(&self) -> bool {
        matches!(self, Self::Directory | Self::File)
    }

    /// Returns whether a value is a list of names.
    pub const fn is_name_list(&self) -> bool {
        matches!(self, Self::Files | Self::Hosts | Self::Origins | Self::Words)
    }

    /// Returns the smallest and largest number; the whole range if the value is not a number.
    pub const fn range(&self) -> (u64, u64) {
        match *self {
            Self::Bytes { min: least, max: most }
            | Self::BytesOrOff { min: least, max: most }
            | Self::Count { min: least, max: most }
            | Self::CountOrAuto { min: least, max: most }
            | Self::Milliseconds { min: least, max: most }
            | Self::Seconds { min: least, max: most } => (least, most),
            Self::Cpus { max: most } => (0, most),
            Self::Ratio => (0, 1_000_000),
            Self::Address
            | Self::Choice(_)
            | Self::Demo
            | Self::Directory
            | Self::EndpointPath
            | Self::File
            | Self::Files
            | Self::Hosts
            | Self::Origins
            | Self::Switch
            | Self::Text
            | Self::UriPrefix
            | Self::UrlPath
            | Self::Words => (0, u64::MAX),
        }
    }

    /// Returns how to write a value, for hints.
    pub const fn notation(&self) -> &'static str {
        match self {
            Self::Address => "write it as 127.0.0.1:8888, [::1]:8888 or off",
            Self::Bytes { .. } => "write bytes, or a size such as 64KiB, 16MiB or 1GiB",
            Self::BytesOrOff { .. } => "write bytes, a size such as 64KiB, or off",
            Self::Choice(_) => "write one of its values",
            Self::Count { .. } => "write digits",
            Self::CountOrAuto { .. } => "write digits, or auto",
            Self::Cpus { .. } => "write a list such as 0,2-5, or auto",
            Self::Demo => "write auto, off, basic, conformance, or tools=100,bytes=1024",
            Self::Directory => "write the path of a directory in quotes, or off",
            Self::EndpointPath => "write a path such as /mcp",
            Self::File => "write the path of a file in quotes, or off",
            Self::Files => "write paths such as a.pem,b.pem, or off",
            Self::Hosts => "write a list such as mcp.example.com,192.0.2.1:8080, or default",
            Self::Milliseconds { .. } => {
                "write milliseconds, or a time such as 500ms, 30s, 5min, 1h or 1d"
            }
            Self::Origins => {
                "write a list such as https://app.example.com,http://dev.example:*, or default"
            }
            Self::Ratio => "write a number from 0 to 1, such as 0.05",
            Self::Seconds { .. } => "write seconds, or a time such as 500ms, 30s, 5min or 1h",
            Self::Switch => "write true or false",
            Self::Text => "write a text of at most 4 KiB, or default",
            Self::UriPrefix => "write scheme:// or a longer beginning that ends with /, or off",
            Self::UrlPath => "write a path such as /mcp/ws, or off",
            Self::Words => "write texts separated by commas, or default",
        }
    }

    /// Returns the factor of `suffix` in this unit.
    fn factor(&self, suffix: &str) -> Option<u64> {
        if suffix.is_empty() {
            return Some(if matches!(self, Self::Seconds { .. }) { 1_000 } else { 1 });
        }
        match self {
            Self::Bytes { .. } | Self::BytesOrOff { .. } => match suffix {
                "B" => Some(1),
                "kB" | "KB" => Some(1000),
                "MB" => Some(1_000_000),
                "GB" => Some(1_000_000_000),
                _ => SIZES.iter().find(|(known, _)| *known == suffix).map(|(_, factor)| *factor),
            },
            Self::Milliseconds { .. } | Self::Seconds { .. } if suffix == "ms" => Some(1),
            Self::Milliseconds { .. } | Self::Seconds { .. } => {
                TIMES.iter().find(|(known, _)| *known == suffix).map(|(_, factor)| *factor)
            }
            _ => None,
        }
    }
}

const SIZES: [(&str, u64); 4] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
const TIMES: [(&str, u64); 4] = [("s", 1000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Returns the candidate most similar to `word`, the first of several, or `None` if none is similar
/// enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (similarity(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, candidate)| candidate)
}

/// Returns the similarity from 0 (nothing in common) to 1 (the same words).
fn similarity(word: &str, candidate: &str) -> f64 {
    let (word, candidate) = (word.to_lowercase(), candidate.to_lowercase());
    if sorted_words(&word) == sorted_words(&candidate) {
        return 1.0;
    }
    if strsim::damerau_levenshtein(&word, &candidate) == 1 {
        return 0.9;
    }
    let last = candidate.rsplit('.').next().unwrap_or(&candidate);
    let whole = strsim::normalized_damerau_levenshtein(&word, &candidate);
    let end = 0.95 * strsim::normalized_damerau_levenshtein(&word, last);
    whole.max(end)
}

/// Returns the words of a name, sorted.
fn sorted_words(name: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = name.split(['.', '_', '-']).collect();
    parts.sort_unstable();
    parts
}

/// Determined with the table's keys: one or two typing errors stay above it, and no two keys of
/// different meaning reach it.
const SIMILARITY_MIN: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Unit = Unit::Bytes { min: 1, max: u64::MAX };
    const TIME: Unit = Unit::Milliseconds { min: 0, max: u64::MAX };
    const COUNT: Unit = Unit::Count { min: 1, max: 100 };

    #[test]
    fn sizes_and_times_are_parsed_with_suffixes() {
        for (text, bytes) in [
            ("64KiB", 65_536),
            ("16MiB", 16 << 20),
            ("16 MiB", 16 << 20),
            ("1_000", 1000),
            ("65536", 65_536),
            ("10kB", 10_000),
            ("7B", 7),
        ] {
            assert_eq!(BYTES.parse(text), Ok(bytes), "{text}");
        }
        for (text, span) in [("5min", 300_000), ("30s", 30_000), ("250", 250), ("250ms", 250)] {
            assert_eq!(TIME.parse(text), Ok(span), "{text}");
        }
    }

    #[test]
    fn ambiguous_and_malformed_numbers_are_rejected() {
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
            let diagnostic = unit.parse(text).unwrap_err();
            assert_eq!(diagnostic.hint, unit.notation(), "{text}");
        }
    }

    #[test]
    fn out_of_range_number_names_the_range() {
        for text in ["0", "101", "99999999999999999999999"] {
            assert_eq!(COUNT.parse(text).unwrap_err().hint, "write a value from 1 to 100");
        }
        assert!(BYTES.parse("99999999999GiB").unwrap_err().message.ends_with("out of range"));
    }

    #[test]
    fn formatted_numbers_parse_to_same_value() {
        for number in [0, 1, 999, 1000, 1024, 60_000, 90_000, 65_536, 86_400_000, 1 << 40, 12_345] {
            assert_eq!(TIME.parse(&TIME.format(number)), Ok(number));
            assert_eq!(BYTES.parse(&BYTES.format(number.max(1))), Ok(number.max(1)));
        }
        assert_eq!(TIME.format(90_000), "90s");
        assert_eq!(TIME.format(0), "0ms");
    }

    const KEYS: [&str; 4] = ["tcp.connections_max", "tcp.idle_timeout", "shards", "http.address"];

    #[test]
    fn misspelled_reordered_and_partial_keys_are_suggested() {
        for (word, key) in [
            ("tcp.conections_max", "tcp.connections_max"),
            ("tcp.max_connections", "tcp.connections_max"),
            ("connections_max", "tcp.connections_max"),
            ("TCP-CONNECTIONS-MAX", "tcp.connections_max"),
            ("shrads", "shards"),
            ("shard", "shards"),
        ] {
            assert_eq!(nearest(word, KEYS), Some(key), "{word}");
        }
    }

    #[test]
    fn one_typo_in_short_word_is_suggested() {
        assert_eq!(nearest("tpc", ["http", "ring", "tcp"]), Some("tcp"));
    }

    #[test]
    fn dissimilar_words_get_no_suggestion() {
        for word in ["", "x", "colour", "tls.certificate"] {
            assert_eq!(nearest(word, KEYS), None, "{word}");
        }
    }
}
