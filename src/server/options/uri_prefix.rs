//! The check of the beginning of the URIs of files.

/// Checks the beginning of a URI (RFC 3986, section 3): a scheme, then characters of authority and
/// path, the last a slash.
pub(crate) fn check_uri_prefix(prefix: &str) -> Result<(), &'static str> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|char: char| char.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/@!$&'()*+,;=%".contains(&byte);
    let Some((scheme, rest)) = prefix.split_once("://") else { return Err("has no scheme") };
    if !is_scheme(scheme) {
        Err("has an invalid scheme")
    } else if !prefix.ends_with('/') {
        Err("does not end with /")
    } else if !rest.bytes().all(is_allowed) {
        Err("has characters that are not allowed before the path of a file")
    } else {
        Ok(())
    }
}
