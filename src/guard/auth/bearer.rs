//! Tokens in requests: the `Authorization` field, and the query where that is allowed.
//!
//! Source: RFC 6750, section 2; RFC 9449, section 7.1; RFC 9110, section 11.4.

use super::{AuthError, InvalidToken, TokenFault};

/// Bytes of a token, at most.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Returns the token in the value of an `Authorization` field.
///
/// # Errors
///
/// [`AuthError::Missing`] for another scheme, [`AuthError::InvalidToken`] if the token is empty,
/// too long, or has characters that tokens do not have.
pub fn read_authorization(value: &[u8]) -> Result<&str, AuthError> {
    unchecked_token(value).map_or(Err(AuthError::Missing), read_token)
}

/// Returns the bytes of the token in the value of an `Authorization` field, to compare them with a
/// token that was read. `None` for another scheme.
#[inline]
pub fn unchecked_token(value: &[u8]) -> Option<&[u8]> {
    token_of_scheme(value, SCHEME)
}

/// Returns the token in the value of an `Authorization` field with the scheme `DPoP`; `None` for
/// another scheme.
///
/// # Errors
///
/// As [`read_authorization`].
pub fn read_bound_token(value: &[u8]) -> Result<Option<&str>, AuthError> {
    token_of_scheme(value, DPOP_SCHEME).map(read_token).transpose()
}

/// Returns what follows the scheme in the value of a field, which ends without white space.
#[inline]
fn token_of_scheme<'v>(value: &'v [u8], wanted: &[u8]) -> Option<&'v [u8]> {
    let (scheme, rest) = value.split_at_checked(wanted.len())?;
    let is_scheme = scheme == wanted || scheme.eq_ignore_ascii_case(wanted);
    (is_scheme && matches!(rest, [] | [b' ', ..])).then(|| rest.trim_ascii_start())
}

/// Returns a token as text.
///
/// # Errors
///
/// As [`read_authorization`].
pub fn read_token(token: &[u8]) -> Result<&str, AuthError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(AuthError::InvalidToken(TOO_LONG));
    }
    let body = without_padding(token);
    let is_token = !body.is_empty() && body.iter().all(|byte| is_token_byte(*byte));
    let text = str::from_utf8(token).ok().filter(|_| is_token);
    text.ok_or(AuthError::InvalidToken(MALFORMED))
}

/// Returns whether an encoded query has the parameter in which RFC 6750, section 2.3, sends tokens.
pub fn has_access_token(query: &[u8]) -> bool {
    query.split(|byte| *byte == b'&').any(|part| part.starts_with(b"access_token="))
}

fn without_padding(token: &[u8]) -> &[u8] {
    let length = token.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    &token[..length]
}

/// Returns whether a byte may be in a token, apart from the padding at its end (`b64token`).
const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/')
}

const TOO_LONG: InvalidToken = InvalidToken::new(TokenFault::Malformed, "the token is too long");
const MALFORMED: InvalidToken = InvalidToken::new(TokenFault::Malformed, "the token is malformed");

const SCHEME: &[u8] = b"Bearer";
const DPOP_SCHEME: &[u8] = b"DPoP";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_read_from_authorization() {
        for value in
            ["Bearer abc.DEF-_~+/1==", "bearer   abc.DEF-_~+/1==", "BEARER abc.DEF-_~+/1=="]
        {
            assert_eq!(read_authorization(value.as_bytes()), Ok("abc.DEF-_~+/1=="));
        }
    }

    #[test]
    fn other_scheme_is_a_missing_token() {
        for value in ["", "Basic YTpi", "Bearerabc", "DPoP abc", "Token", "Bearer,abc"] {
            assert_eq!(read_authorization(value.as_bytes()), Err(AuthError::Missing), "{value}");
        }
    }

    #[test]
    fn bound_token_has_its_own_scheme() {
        assert_eq!(read_bound_token(b"dpop  abc=="), Ok(Some("abc==")));
        for value in ["", "Bearer abc", "DPoPabc", "DPo"] {
            assert_eq!(read_bound_token(value.as_bytes()), Ok(None), "{value}");
        }
        for value in ["DPoP", "DPoP a b"] {
            let error = read_bound_token(value.as_bytes()).unwrap_err();
            assert!(matches!(error, AuthError::InvalidToken(_)), "{value}: {error:?}");
        }
    }

    #[test]
    fn malformed_token_is_invalid() {
        let long = "a".repeat(TOKEN_BYTES_MAX + 1);
        for token in ["", " ", "a b", "a,b", "=", "a=b", "\"a\"", "ä", "a\0", long.as_str()] {
            let value = format!("Bearer {token}");
            let error = read_authorization(value.as_bytes()).unwrap_err();
            assert!(matches!(error, AuthError::InvalidToken(_)), "{token}: {error:?}");
        }
    }
}
