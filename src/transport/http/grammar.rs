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

/// Whether the name of a field is `expected`, which is in lower case. Compares in whole vectors: of
/// all bytes that may stand in a name, the bit of the case makes only letters equal.
#[inline]
pub(in crate::transport::http) fn is_name<const LENGTH: usize>(
    name: &[u8],
    expected: &[u8; LENGTH],
) -> bool {
    let Ok(name) = <&[u8; LENGTH]>::try_from(name) else { return false };
    let bytes = name.iter().zip(expected);
    bytes.fold(0, |differing, (byte, expected)| differing | ((byte | 0x20) ^ expected)) == 0
}

/// Whether a value has only characters of a host and a port. Narrower than the grammar by the
/// comma, with which two hosts are made one on the way. The empty host is one.
#[inline]
pub(in crate::transport::http) fn is_host(value: &[u8]) -> bool {
    value.iter().fold(true, |is_host, &byte| is_host & HOST_BYTES[byte as usize])
}

/// By byte: whether it may stand in a host and a port.
static HOST_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let allowed =
        b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-._~%:[]!$&'()*+;=";
    let mut index = 0;
    while index < allowed.len() {
        table[allowed[index] as usize] = true;
        index += 1;
    }
    table
};
