//! The fields that only some answers have: sessions, challenges, cross-origin access.
//!
//! What it keeps true: no value ends its own line. Whatever a value holds, a control character in
//! it (but the tab) is written as a space, so what a peer sent may be given back (RFC 9110,
//! section 5.5). It does not decide which answer has which field.
//!
//! Source: MCP 2025-11-25 basic/transports, "Session Management"; RFC 9110; the Fetch standard,
//! "CORS protocol"; Content Security Policy Level 3.

use crate::protocol::json::write;

/// What an answer says besides its status, type, date and length; by default nothing.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// `Mcp-Session-Id`: the session that began, or that the request belongs to.
    pub session: Option<&'a [u8]>,
    /// `MCP-Protocol-Version`: the revision that the session speaks.
    pub version: Option<&'a str>,
    /// `Allow`: the verbs that the path knows, with a 405.
    pub allow: Option<&'static str>,
    /// `Accept-Encoding: identity`, with a 415: not the type of the body was refused, but that
    /// something was done to it (RFC 9110, section 12.5.3).
    pub takes_identity: bool,
    /// `Retry-After`, in seconds.
    pub retry_after_seconds: Option<u32>,
    /// Which origin may read the answer. Without it a browser shows the answer to none but ours.
    pub origin: Option<Allowed<'a>>,
    /// The answer to a preflight, besides `origin`.
    pub preflight: Option<Preflight<'a>>,
    /// `WWW-Authenticate`, with a 401 or 403.
    pub challenge: Option<&'a str>,
    /// `Content-Security-Policy` of a page; its type is then not to be guessed at either.
    pub policy: Option<&'a str>,
}

impl Fields<'_> {
    /// Nothing besides.
    pub const NONE: Self = Self {
        session: None,
        version: None,
        allow: None,
        takes_identity: false,
        retry_after_seconds: None,
        origin: None,
        preflight: None,
        challenge: None,
        policy: None,
    };

    /// Whether there is nothing to say.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        matches!(
            self,
            Self {
                session: None,
                version: None,
                allow: None,
                takes_identity: false,
                retry_after_seconds: None,
                origin: None,
                preflight: None,
                challenge: None,
                policy: None,
            }
        )
    }

    /// Appends a line for each.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if let Some(session) = self.session {
            push(out, b"Mcp-Session-Id: ", session);
        }
        if let Some(version) = self.version {
            push(out, b"MCP-Protocol-Version: ", version.as_bytes());
        }
        if let Some(allow) = self.allow {
            push(out, b"Allow: ", allow.as_bytes());
        }
        if self.takes_identity {
            out.extend_from_slice(b"Accept-Encoding: identity\r\n");
        }
        if let Some(seconds) = self.retry_after_seconds {
            push_number(out, b"Retry-After: ", seconds);
        }
        if let Some(origin) = self.origin {
            origin.write(out);
            if self.preflight.is_none() {
                out.extend_from_slice(EXPOSED);
            }
        }
        if let Some(preflight) = self.preflight {
            preflight.write(out);
        }
        if let Some(challenge) = self.challenge {
            push(out, b"WWW-Authenticate: ", challenge.as_bytes());
        }
        if let Some(policy) = self.policy {
            push(out, b"Content-Security-Policy: ", policy.as_bytes());
            out.extend_from_slice(b"X-Content-Type-Options: nosniff\r\n");
        }
    }
}

impl Default for Fields<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

/// Which origin a browser lets read an answer (`Access-Control-Allow-Origin`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Allowed<'a> {
    /// Every one.
    Any,
    /// This one, given back as it was sent; caches are told that answers vary by it.
    Origin(&'a [u8]),
}

impl Allowed<'_> {
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Any => out.extend_from_slice(b"Access-Control-Allow-Origin: *\r\n"),
            Self::Origin(origin) => {
                push(out, b"Access-Control-Allow-Origin: ", origin);
                out.extend_from_slice(b"Vary: Origin\r\n");
            }
        }
    }
}

/// What a browser may send from another origin; the answer to its preflight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Preflight<'a> {
    /// `Access-Control-Allow-Methods`: the verbs of the path.
    pub verbs: &'static str,
    /// `Access-Control-Allow-Headers`. The names of `Mcp-Param-*` have no end, so what was asked
    /// for (`Access-Control-Request-Headers`) is given back; a `*` would leave out
    /// `Authorization`.
    pub headers: Option<&'a [u8]>,
    /// `Access-Control-Max-Age`: how long the browser need not ask again, in seconds.
    pub age_seconds_max: u32,
}

impl Preflight<'_> {
    fn write(self, out: &mut Vec<u8>) {
        push(out, b"Access-Control-Allow-Methods: ", self.verbs.as_bytes());
        if let Some(headers) = self.headers {
            push(out, b"Access-Control-Allow-Headers: ", headers);
        }
        push_number(out, b"Access-Control-Max-Age: ", self.age_seconds_max);
    }
}

/// Appends a line; `name` ends with its colon and a space.
fn push(out: &mut Vec<u8>, name: &'static [u8], value: &[u8]) {
    out.extend_from_slice(name);
    push_value(out, value);
    out.extend_from_slice(b"\r\n");
}

fn push_number(out: &mut Vec<u8>, name: &'static [u8], number: u32) {
    out.extend_from_slice(name);
    write::unsigned(out, u64::from(number));
    out.extend_from_slice(b"\r\n");
}

/// Appends `value` with a space in the place of every control character but the tab.
pub(super) fn push_value(out: &mut Vec<u8>, value: &[u8]) {
    let start = out.len();
    out.extend_from_slice(value);
    for byte in &mut out[start..] {
        if byte.is_ascii_control() && *byte != b'\t' {
            *byte = b' ';
        }
    }
}

/// What a script may read besides what it always may: the fields of this page that tell it
/// something.
const EXPOSED: &[u8] = b"Access-Control-Expose-Headers: Mcp-Session-Id, MCP-Protocol-Version, \
Retry-After, WWW-Authenticate\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fields: &Fields<'_>) -> String {
        let mut out = Vec::new();
        fields.write(&mut out);
        assert_eq!(out.is_empty(), fields.is_empty());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_fields_write_nothing() {
        assert_eq!(written(&Fields::default()), "");
    }

    #[test]
    fn every_field_has_a_line_of_its_own() {
        let fields = Fields {
            session: Some(b"0123-abc"),
            version: Some("2025-11-25"),
            allow: Some("GET, POST"),
            takes_identity: true,
            retry_after_seconds: Some(120),
            challenge: Some("Bearer realm=\"mcp\""),
            policy: Some("default-src 'none'"),
            ..Fields::default()
        };
        assert_eq!(
            written(&fields),
            "Mcp-Session-Id: 0123-abc\r\nMCP-Protocol-Version: 2025-11-25\r\n\
             Allow: GET, POST\r\nAccept-Encoding: identity\r\nRetry-After: 120\r\n\
             WWW-Authenticate: Bearer realm=\"mcp\"\r\n\
             Content-Security-Policy: default-src 'none'\r\n\
             X-Content-Type-Options: nosniff\r\n"
        );
    }

    #[test]
    fn an_origin_that_was_given_back_varies_the_answer_and_a_star_does_not() {
        let origin = Some(Allowed::Origin(b"http://localhost:6274"));
        let one = written(&Fields { origin, ..Fields::default() });
        assert!(one.starts_with(
            "Access-Control-Allow-Origin: http://localhost:6274\r\nVary: Origin\r\n\
             Access-Control-Expose-Headers: Mcp-Session-Id, "
        ));
        let any = written(&Fields { origin: Some(Allowed::Any), ..Fields::default() });
        assert!(any.starts_with("Access-Control-Allow-Origin: *\r\nAccess-Control-Expose"));
        assert!(!any.contains("Vary"));
    }

    #[test]
    fn a_preflight_tells_verbs_headers_and_age_and_exposes_nothing() {
        let preflight =
            Preflight { verbs: "POST", headers: Some(b"authorization"), age_seconds_max: 7200 };
        let fields =
            Fields { origin: Some(Allowed::Any), preflight: Some(preflight), ..Fields::default() };
        assert_eq!(
            written(&fields),
            "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Methods: POST\r\n\
             Access-Control-Allow-Headers: authorization\r\nAccess-Control-Max-Age: 7200\r\n"
        );
    }

    #[test]
    fn a_value_does_not_end_its_line() {
        let origin = Some(Allowed::Origin(b"http://a\r\nSet-Cookie: b\0\x7f\tc"));
        let text = written(&Fields { origin, ..Fields::default() });
        assert!(text.contains("Allow-Origin: http://a  Set-Cookie: b  \tc\r\n"));
    }
}
