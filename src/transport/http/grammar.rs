//! Character classes of HTTP (RFC 9110, section 5.6; RFC 3986, section 3.2.2).

/// Returns whether a byte may occur in a token: a method or field name (RFC 9110, section 5.6.2).
pub(super) const fn is_token_byte(byte: u8) -> bool {
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

/// Returns whether a byte may occur in a field value (RFC 9110, section 5.5): no control characters
/// except tab.
pub(super) const fn is_field_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Compares a field name with `expected`, which is in lower case. Setting bit 0x20 of every byte
/// folds the case; among the bytes allowed in a name it equates letters only.
#[inline]
pub(super) fn is_field_name<const LENGTH: usize>(name: &[u8], expected: &[u8; LENGTH]) -> bool {
    let Ok(name) = <&[u8; LENGTH]>::try_from(name) else { return false };
    let bytes = name.iter().zip(expected);
    bytes.fold(0, |differing, (byte, expected)| differing | ((byte | 0x20) ^ expected)) == 0
}

/// Returns the one value of a single-valued field whose lines a proxy has combined into a list
/// (RFC 9110, section 5.3): the member of `value` that all others equal, or `value` if they differ.
#[cold]
pub(super) fn single_value(value: &[u8]) -> &[u8] {
    let members = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let mut members = members.filter(|member| !member.is_empty());
    match members.next() {
        Some(first) if members.all(|member| member == first) => first,
        _ => value,
    }
}

/// Returns whether `value` is a list whose members all equal `text`, which may contain commas.
#[cold]
pub(super) fn repeats(value: &[u8], text: &[u8]) -> bool {
    let mut rest = value;
    while let Some(after) = rest.strip_prefix(text).filter(|_| !text.is_empty()) {
        match after.trim_ascii_start() {
            [] => return true,
            [b',', more @ ..] => rest = more.trim_ascii_start(),
            _ => return false,
        }
    }
    false
}

/// Returns whether a value has only characters of a host and port. Excludes the comma, which
/// proxies use to combine repeated fields. The empty host is allowed.
#[inline]
pub(super) fn is_host(value: &[u8]) -> bool {
    value.iter().fold(true, |is_host, &byte| is_host & HOST_BYTES[byte as usize])
}

/// By byte: whether it may occur in a host and port.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_equal_members_is_one_value() {
        for list in ["a", "a, a", "a,a,a", " a ,, a,"] {
            assert_eq!(single_value(list.as_bytes()), b"a", "{list}");
        }
        for list in ["a, b", "a, A", "", ",", "a b"] {
            assert_eq!(single_value(list.as_bytes()), list.as_bytes());
        }
    }

    #[test]
    fn repeated_text_may_contain_commas() {
        for list in ["a, b", "a, b, a, b", "a, b,a, b ,\ta, b"] {
            assert!(repeats(list.as_bytes(), b"a, b"), "{list}");
        }
        for list in ["", "a, ba, b", "a, b, a", "a, b,", ", a, b"] {
            assert!(!repeats(list.as_bytes(), b"a, b"), "{list}");
        }
        assert!(!repeats(b"", b"") && !repeats(b",", b""));
    }
}
