//! What one JSON text may cost, decided before the cost is paid.
//!
//! The parser takes memory in proportion to the number of tokens of a text: up to eight bytes for
//! the place of each and twenty-four for its node. Sixteen mebibytes of `[` are one message within
//! the size limit and would ask for half a gibibyte. Texts up to [`SURVEYED_BYTES_MIN`] are safe by
//! their size; longer ones are surveyed first, and refused by depth or by number of tokens.

/// Texts up to this length are parsed without a survey: they cost two mebibytes at the worst.
pub const SURVEYED_BYTES_MIN: usize = 64 * 1024;

/// The deepest nesting that can be asked for. Values are encoded and handed to serde by recursion,
/// and a shard's stack has to carry it.
pub const NESTING_CEILING: usize = 512;

/// The limits of a parser.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Arrays and objects inside each other. Default 64, at most [`NESTING_CEILING`]; costs 24
    /// bytes of parser memory per level.
    pub nesting_max: usize,
    /// Tokens of one text: keys, scalars, brackets, commas and colons. Default 2,097,152; costs up
    /// to 32 bytes each while such a text is parsed.
    pub tokens_max: usize,
    /// The length of a text after which the parser gives its memory back instead of keeping it for
    /// the next one. Default 65,536 bytes; costs up to 30 times as much per parser.
    pub retained_text_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { nesting_max: 64, tokens_max: 2 * 1024 * 1024, retained_text_bytes_max: 64 * 1024 }
    }
}

/// Why a survey refuses a text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Excess {
    /// More levels than [`Limits::nesting_max`].
    Nesting,
    /// A byte that no JSON text has where it stands; reported here because the count of tokens
    /// would not be sure after it.
    Syntax,
    /// More tokens than [`Limits::tokens_max`].
    Tokens,
}

/// Walks over `text` once and takes no memory. What it accepts has at most
/// [`Limits::tokens_max`] tokens by the parser's own count, whether or not it is valid.
pub(crate) fn survey(text: &[u8], limits: &Limits) -> Result<(), Excess> {
    let (mut depth, mut tokens) = (0_usize, 0_usize);
    let mut inside_scalar = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                inside_scalar = false;
                continue;
            }
            b'[' | b'{' => {
                depth += 1;
                if depth > limits.nesting_max {
                    return Err(Excess::Nesting);
                }
                inside_scalar = false;
            }
            b']' | b'}' => {
                // Closing what was never opened is for the parser to find.
                depth = depth.saturating_sub(1);
                inside_scalar = false;
            }
            b',' | b':' => inside_scalar = false,
            b'"' => {
                at += string_length(text.get(at..).unwrap_or_default()).ok_or(Excess::Syntax)?;
                inside_scalar = false;
            }
            // Outside of strings a backslash hides the next quote from the parser's first stage.
            b'\\' => return Err(Excess::Syntax),
            _ if inside_scalar => continue,
            _ => inside_scalar = true,
        }
        tokens += 1;
        if tokens > limits.tokens_max {
            return Err(Excess::Tokens);
        }
    }
    Ok(())
}

/// How many bytes of `rest`, which stands behind an opening quote, belong to the string and its
/// closing quote; none when the quote is missing.
fn string_length(rest: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', rest.get(at..)?)?;
        if rest[found] == b'"' {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(nesting_max: usize, tokens_max: usize) -> Limits {
        Limits { nesting_max, tokens_max, ..Limits::default() }
    }

    #[test]
    fn depth_is_counted_outside_of_strings_only() {
        assert_eq!(survey(br#"[{"a":"[[[[\"[["}]"#, &limits(2, 100)), Ok(()));
        assert_eq!(survey(br"[[[1]]]", &limits(2, 100)), Err(Excess::Nesting));
        assert_eq!(survey(br"[[],[],[]]", &limits(2, 100)), Ok(()));
    }

    #[test]
    fn every_token_counts_once() {
        // [ "a" , 12 , { "b" : null } ]
        let text = br#" [ "a" , 12,{"b":null} ] "#;
        assert_eq!(survey(text, &limits(9, 11)), Ok(()));
        assert_eq!(survey(text, &limits(9, 10)), Err(Excess::Tokens));
    }

    #[test]
    fn what_would_confuse_the_count_is_refused_at_once() {
        for text in [&br#"[\"[[["#[..], br#"["open]"#, br#"["open\""#, br#"["open\"#] {
            assert_eq!(survey(text, &limits(64, 100)), Err(Excess::Syntax));
        }
    }
}
