//! The target of a request and the host that it names (RFC 9112, sections 3.2 and 3.3; RFC 9110,
//! section 7.2).

use std::ops::Range;

use crate::transport::http::grammar::is_host;
use crate::transport::http::limits::Refusal;
use crate::transport::http::status::Status;

/// A target reduced to what this server looks at, as places in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Target {
    /// The path with its query, or `*`.
    pub(super) path: Range<usize>,
    /// The host of a target in absolute form.
    pub(super) authority: Option<Range<usize>>,
}

impl Target {
    /// Reads the target of a request with `method`.
    pub(super) fn read(method: &str, target: &[u8]) -> Result<Self, Refusal> {
        if !target.iter().all(|&byte| byte.is_ascii_graphic() && byte != b'#') {
            return Err(Refusal::bad("the request target has a character that none may have"));
        }
        match target {
            // A tunnel would make bytes of anybody out of everything that follows.
            _ if method == "CONNECT" => {
                Err(Refusal { status: Status::NOT_IMPLEMENTED, reason: "CONNECT is not served" })
            }
            [b'/', ..] => Ok(Self { path: 0..target.len(), authority: None }),
            b"*" if method == "OPTIONS" => Ok(Self { path: 0..1, authority: None }),
            _ => Self::read_absolute(target),
        }
    }

    /// Reads `http://host/path`, which every server has to take.
    fn read_absolute(target: &[u8]) -> Result<Self, Refusal> {
        let scheme = SCHEMES.iter().find(|scheme| {
            target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let Some(scheme) = scheme else {
            return Err(Refusal::bad("the request target is neither a path nor a URI of HTTP"));
        };
        let start = scheme.len();
        let rest = &target[start..];
        let length = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
        let end = start + length.unwrap_or(rest.len());
        if end == start || !is_host(&target[start..end]) {
            return Err(Refusal::bad("the request target names no host"));
        }
        // A URI without a path means `/`; the slash before the host is one to point at. A query
        // on it is lost: nothing is asked there.
        let path =
            if target.get(end) == Some(&b'/') { end..target.len() } else { start - 1..start };
        Ok(Self { path, authority: Some(start..end) })
    }
}

const SCHEMES: [&[u8]; 2] = [b"http://", b"https://"];

#[cfg(test)]
mod tests {
    use super::*;

    /// The path and the host of a target, or the code that refuses it.
    fn read<'t>(method: &str, target: &'t str) -> Result<(&'t str, Option<&'t str>), u16> {
        let read = Target::read(method, target.as_bytes());
        let read = read.map_err(|refusal| refusal.status.code())?;
        Ok((&target[read.path], read.authority.map(|authority| &target[authority])))
    }

    #[test]
    fn a_path_is_taken_as_it_stands() {
        assert_eq!(read("POST", "/mcp?a=b"), Ok(("/mcp?a=b", None)));
        assert_eq!(read("GET", "//evil"), Ok(("//evil", None)));
    }

    #[test]
    fn an_absolute_target_is_reduced_to_its_path_and_host() {
        assert_eq!(read("GET", "http://a.b:8/c?d"), Ok(("/c?d", Some("a.b:8"))));
        assert_eq!(read("GET", "HTTPS://[::1]/"), Ok(("/", Some("[::1]"))));
        assert_eq!(read("GET", "http://a"), Ok(("/", Some("a"))));
        assert_eq!(read("GET", "http://a?b"), Ok(("/", Some("a"))));
    }

    #[test]
    fn a_star_is_for_options_alone() {
        assert_eq!(read("OPTIONS", "*"), Ok(("*", None)));
        assert_eq!(read("GET", "*"), Err(400));
    }

    #[test]
    fn everything_else_is_refused() {
        for target in ["mcp", "ftp://a/", "http:///a", "http://u@a/", "/a#b", "/\u{e9}", "http:/"] {
            assert_eq!(read("GET", target), Err(400), "{target}");
        }
        assert_eq!(read("CONNECT", "a:443"), Err(501));
    }
}
