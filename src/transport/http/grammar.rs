//! Which bytes may stand where (RFC 9110, section 5.6; RFC 3986, section 3.2.2).

/// Whether a byte may stand in a token: a method or the name of a field (RFC 9110, section 5.6.2).
pub(in crate::transport::http) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Whether a byte may stand in the value of a field (RFC 9110, section 5.5): no control characters
/// but the tab.
pub(in crate::transport::http) const fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Whether a value has only characters of a host and a port. Narrower than the grammar by the
/// comma, with which two hosts are made one on the way. The empty host is one.
pub(in crate::transport::http) fn is_host(value: &[u8]) -> bool {
    value.iter().all(|&byte| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'-' | b'.'
                    | b'_'
                    | b'~'
                    | b'%'
                    | b':'
                    | b'['
                    | b']'
                    | b'!'
                    | b'$'
                    | b'&'
                    | b'\''
                    | b'('
                    | b')'
                    | b'*'
                    | b'+'
                    | b';'
                    | b'='
            )
    })
}
