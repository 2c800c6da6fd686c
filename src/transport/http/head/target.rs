//! Parsing of the request target and its host (RFC 9112, sections 3.2 and 3.3; RFC 9110, section
//! 7.2).

use std::ops::Range;

use crate::http::grammar::is_host;
use crate::http::limits::RequestError;
use crate::http::status::Status;

/// A request target as ranges of its bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Target {
    /// The path with its query, or `*`.
    pub(super) path: Range<usize>,
    /// The host of an absolute-form target.
    pub(super) authority: Option<Range<usize>>,
}

impl Target {
    /// Parses the target of a request with `method`.
    pub(super) fn parse(method: &str, target: &[u8]) -> Result<Self, RequestError> {
        if !target.iter().all(|&byte| byte.is_ascii_graphic() && byte != b'#') {
            return Err(RequestError::bad_request("the request target has an invalid character"));
        }
        match target {
            // A tunnel would turn all following bytes into unparsed data.
            _ if method == "CONNECT" => Err(RequestError {
                status: Status::NOT_IMPLEMENTED,
                reason: "CONNECT is not supported",
            }),
            [b'/', ..] => Ok(Self { path: 0..target.len(), authority: None }),
            b"*" if method == "OPTIONS" => Ok(Self { path: 0..1, authority: None }),
            _ => Self::parse_absolute(target),
        }
    }

    /// Parses the absolute form, `http://host/path`, which every server must accept.
    fn parse_absolute(target: &[u8]) -> Result<Self, RequestError> {
        let scheme = SCHEMES.iter().find(|scheme| {
            target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let Some(scheme) = scheme else {
            return Err(RequestError::bad_request(
                "the request target is neither a path nor an http URI",
            ));
        };
        let start = scheme.len();
        let rest = &target[start..];
        let length = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
        let end = start + length.unwrap_or(rest.len());
        if end == start || !is_host(&target[start..end]) {
            return Err(RequestError::bad_request("the request target has no valid host"));
        }
        // A URI without a path means `/`: point at the slash before the host. Its query is dropped;
        // `/` takes none.
        let path =
            if target.get(end) == Some(&b'/') { end..target.len() } else { start - 1..start };
        Ok(Self { path, authority: Some(start..end) })
    }
}

const SCHEMES: [&[u8]; 2] = [b"http://", b"https://"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the path and host of a target, or the error status.
    fn read<'t>(method: &str, target: &'t str) -> Result<(&'t str, Option<&'t str>), u16> {
        let read = Target::parse(method, target.as_bytes());
        let read = read.map_err(|error| error.status.code())?;
        Ok((&target[read.path], read.authority.map(|authority| &target[authority])))
    }

    #[test]
    fn origin_form_target_is_the_path() {
        assert_eq!(read("POST", "/mcp?a=b"), Ok(("/mcp?a=b", None)));
        assert_eq!(read("GET", "//evil"), Ok(("//evil", None)));
    }

    #[test]
    fn absolute_form_target_yields_path_and_host() {
        assert_eq!(read("GET", "http://a.b:8/c?d"), Ok(("/c?d", Some("a.b:8"))));
        assert_eq!(read("GET", "HTTPS://[::1]/"), Ok(("/", Some("[::1]"))));
        assert_eq!(read("GET", "http://a"), Ok(("/", Some("a"))));
        assert_eq!(read("GET", "http://a?b"), Ok(("/", Some("a"))));
    }

    #[test]
    fn asterisk_target_is_only_for_options() {
        assert_eq!(read("OPTIONS", "*"), Ok(("*", None)));
        assert_eq!(read("GET", "*"), Err(400));
    }

    #[test]
    fn other_request_targets_are_rejected() {
        for target in ["mcp", "ftp://a/", "http:///a", "http://u@a/", "/a#b", "/\u{e9}", "http:/"] {
            assert_eq!(read("GET", target), Err(400), "{target}");
        }
        assert_eq!(read("CONNECT", "a:443"), Err(501));
    }
}
