//! Limits of one JSON text, and the prescan that enforces them before memory is allocated.
//!
//! The parser allocates up to 32 bytes for each token of a text: eight for its position and 24 for
//! its node. A 16 MiB message of `[` would need 512 MiB. Texts up to [`PRESCAN_BYTES_MIN`] are
//! bounded by their size; longer ones are prescanned and rejected by nesting or by tokens.

/// Texts up to this length in bytes are parsed without a prescan; they cost at most 2 MiB.
pub(super) const PRESCAN_BYTES_MIN: usize = 64 * 1024;

/// Highest value of [`ParseLimits::nesting_max`]. Values are encoded and deserialized recursively
/// on the stack of a shard.
pub(super) const NESTING_LIMIT_MAX: usize = 512;

/// Limits of a [`super::Parser`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ParseLimits {
    /// Nesting depth of arrays and objects. Default 64, at most 512; costs 24 bytes of parser
    /// memory per level.
    pub nesting_max: usize,
    /// Tokens of one text: keys, scalars, brackets, commas and colons. Default 2,097,152; costs up
    /// to 32 bytes each while such a text is parsed.
    pub tokens_max: usize,
    /// Length of a text, in bytes, above which the parser frees its memory instead of retaining it
    /// for the next one. Default 65,536 bytes; costs up to 30 times as much per parser.
    pub retained_text_bytes_max: usize,
}

/// Length of a text, in bytes, above which it counts as large: it takes long, and much memory.
pub const LARGE_TEXT_BYTES: usize = 64 * 1024;

impl Default for ParseLimits {
    fn default() -> Self {
        Self {
            nesting_max: 64,
            tokens_max: 2 * 1024 * 1024,
            retained_text_bytes_max: LARGE_TEXT_BYTES,
        }
    }
}

/// Why a prescan rejects a text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PrescanError {
    /// More levels than [`Limits::nesting_max`].
    Nesting,
    /// A byte that is invalid at its place; reported here because the token count would be
    /// unreliable after it.
    Syntax,
    /// More tokens than [`Limits::tokens_max`].
    Tokens,
}

/// Checks `text` in one pass without allocating. An accepted text has at most
/// [`ParseLimits::tokens_max`] tokens by the parser's own count, whether or not it is valid.
pub(crate) fn prescan(text: &[u8], limits: &ParseLimits) -> Result<(), PrescanError> {
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
                    return Err(PrescanError::Nesting);
                }
                inside_scalar = false;
            }
            b']' | b'}' => {
                // The parser reports an unmatched closing bracket.
                depth = depth.saturating_sub(1);
                inside_scalar = false;
            }
            b',' | b':' => inside_scalar = false,
            b'"' => {
                at += string_length(text.get(at..).unwrap_or_default())
                    .ok_or(PrescanError::Syntax)?;
                inside_scalar = false;
            }
            // Outside of strings a backslash hides the next quote from the parser's stage 1.
            b'\\' => return Err(PrescanError::Syntax),
            _ if inside_scalar => continue,
            _ => inside_scalar = true,
        }
        tokens += 1;
        if tokens > limits.tokens_max {
            return Err(PrescanError::Tokens);
        }
    }
    Ok(())
}

/// Returns the length of the string contents in `rest`, which follows an opening quote, including
/// the closing quote; `None` if the quote is missing.
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

    fn limits(nesting_max: usize, tokens_max: usize) -> ParseLimits {
        ParseLimits { nesting_max, tokens_max, ..ParseLimits::default() }
    }

    #[test]
    fn prescan_nesting_ignores_brackets_in_strings() {
        assert_eq!(prescan(br#"[{"a":"[[[[\"[["}]"#, &limits(2, 100)), Ok(()));
        assert_eq!(prescan(br"[[[1]]]", &limits(2, 100)), Err(PrescanError::Nesting));
        assert_eq!(prescan(br"[[],[],[]]", &limits(2, 100)), Ok(()));
    }

    #[test]
    fn prescan_counts_every_token_once() {
        // [ "a" , 12 , { "b" : null } ]
        let text = br#" [ "a" , 12,{"b":null} ] "#;
        assert_eq!(prescan(text, &limits(9, 11)), Ok(()));
        assert_eq!(prescan(text, &limits(9, 10)), Err(PrescanError::Tokens));
    }

    #[test]
    fn prescan_rejects_unterminated_and_escaped_quotes() {
        for text in [&br#"[\"[[["#[..], br#"["open]"#, br#"["open\""#, br#"["open\"#] {
            assert_eq!(prescan(text, &limits(64, 100)), Err(PrescanError::Syntax));
        }
    }
}
