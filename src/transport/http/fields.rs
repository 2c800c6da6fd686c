//! Response fields beyond status, type, date and length: sessions, authentication, limits, CORS.
//!
//! Control characters in a value, except tab, are replaced by spaces, so that a value taken from a
//! request cannot inject a line (RFC 9110, section 5.5).
//!
//! Source: MCP 2025-11-25 basic/transports, "Session Management"; RFC 9110; the Fetch standard,
//! "CORS protocol"; Content Security Policy Level 3.

use corelane_protocol::json::write;

/// Additional fields of a response; none by default.
#[derive(Clone, Copy, Debug)]
pub struct ResponseFields<'a> {
    /// `X-Request-ID`, if it is not the UUID of the request that the shard has begun last.
    pub request_id: Option<&'a [u8]>,
    /// `Mcp-Session-Id`: the session of the request.
    pub session_id: Option<&'a [u8]>,
    /// `MCP-Protocol-Version`: the negotiated revision of the session.
    pub protocol_version: Option<&'a str>,
    /// `Allow`: the methods of the path, with status 405.
    pub allow: Option<&'static str>,
    /// `Accept-Encoding: identity`, with status 415: the content coding was refused, not the media
    /// type (RFC 9110, section 12.5.3).
    pub accept_encoding_identity: bool,
    /// `Retry-After`, in seconds.
    pub retry_after_seconds: Option<u32>,
    /// `RateLimit` and `RateLimit-Policy`, with status 429.
    pub rate_limit: Option<RateLimit<'a>>,
    /// `Access-Control-Allow-Origin`: the origin of the request, echoed with `Vary: Origin`.
    /// Without it browsers hide the response from other origins.
    pub allow_origin: Option<&'a [u8]>,
    /// CORS preflight response fields, in addition to `allow_origin`.
    pub preflight: Option<Preflight<'a>>,
    /// `WWW-Authenticate`, with status 401 or 403.
    pub www_authenticate: Option<Challenge<'a>>,
    /// `Content-Security-Policy` of an HTML page; adds `X-Content-Type-Options: nosniff`.
    pub content_security_policy: Option<&'a str>,
    /// `Cache-Control: public, max-age`, in seconds.
    pub max_age_seconds: Option<u32>,
    /// `ETag` of a document for scripts of every origin, with what they may ask for and read.
    pub etag: Option<&'a str>,
}

impl ResponseFields<'_> {
    /// No additional fields.
    pub const NONE: Self = Self {
        request_id: None,
        session_id: None,
        protocol_version: None,
        allow: None,
        accept_encoding_identity: false,
        retry_after_seconds: None,
        rate_limit: None,
        allow_origin: None,
        preflight: None,
        www_authenticate: None,
        content_security_policy: None,
        max_age_seconds: None,
        etag: None,
    };

    /// Returns whether there are no fields but `X-Request-ID`, which every response has.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        matches!(
            self,
            Self {
                request_id: _,
                session_id: None,
                protocol_version: None,
                allow: None,
                accept_encoding_identity: false,
                retry_after_seconds: None,
                rate_limit: None,
                allow_origin: None,
                preflight: None,
                www_authenticate: None,
                content_security_policy: None,
                max_age_seconds: None,
                etag: None,
            }
        )
    }

    /// Appends one line per field but `X-Request-ID`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if let Some(session) = self.session_id {
            push_field(out, b"Mcp-Session-Id: ", session);
        }
        if let Some(version) = self.protocol_version {
            push_field(out, b"MCP-Protocol-Version: ", version.as_bytes());
        }
        if let Some(allow) = self.allow {
            push_field(out, b"Allow: ", allow.as_bytes());
        }
        if self.accept_encoding_identity {
            out.extend_from_slice(b"Accept-Encoding: identity\r\n");
        }
        if let Some(seconds) = self.retry_after_seconds {
            push_number_field(out, b"Retry-After: ", seconds);
        }
        if let Some(rate_limit) = self.rate_limit {
            rate_limit.write(out);
        }
        if let Some(origin) = self.allow_origin {
            push_field(out, b"Access-Control-Allow-Origin: ", origin);
            out.extend_from_slice(b"Vary: Origin\r\n");
            if self.preflight.is_none() && self.etag.is_none() {
                out.extend_from_slice(EXPOSE_HEADERS);
            }
        }
        if let Some(preflight) = self.preflight {
            preflight.write(out);
        }
        if let Some(challenge) = self.www_authenticate {
            push_field(out, b"WWW-Authenticate: ", challenge.text.as_bytes());
            if let Some(nonce) = challenge.dpop_nonce {
                push_field(out, b"DPoP-Nonce: ", nonce.as_bytes());
            }
        }
        if let Some(policy) = self.content_security_policy {
            push_field(out, b"Content-Security-Policy: ", policy.as_bytes());
            out.extend_from_slice(b"X-Content-Type-Options: nosniff\r\n");
        }
        if let Some(seconds) = self.max_age_seconds {
            push_number_field(out, b"Cache-Control: public, max-age=", seconds);
        }
        if let Some(etag) = self.etag {
            push_field(out, b"ETag: ", etag.as_bytes());
            out.extend_from_slice(DOCUMENT_HEADERS);
        }
    }
}

impl Default for ResponseFields<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

/// What a client must send to be served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Challenge<'a> {
    /// The value of `WWW-Authenticate` (RFC 9110, section 11.6.1).
    pub text: &'a str,
    /// `DPoP-Nonce` (RFC 9449, section 8.2).
    pub dpop_nonce: Option<&'a str>,
}

impl<'a> Challenge<'a> {
    /// A challenge without a nonce.
    pub const fn new(text: &'a str) -> Self {
        Self { text, dpop_nonce: None }
    }
}

/// An exceeded rate limit.
///
/// Source: draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RateLimit<'a> {
    /// The name of the limit in both fields, such as `principal+tool`.
    pub policy: &'a str,
    /// Requests of one period.
    pub limit: u32,
    /// The period in seconds.
    pub seconds: u32,
    /// Seconds until the next request may be admitted.
    pub reset_seconds: u32,
}

impl RateLimit<'_> {
    fn write(self, out: &mut Vec<u8>) {
        let mut push = |name: &'static [u8], parameters: [(&[u8], u32); 2]| {
            out.extend_from_slice(name);
            out.push(b'"');
            push_value(out, self.policy.as_bytes());
            out.push(b'"');
            for (parameter, number) in parameters {
                out.extend_from_slice(parameter);
                write::unsigned(out, u64::from(number));
            }
            out.extend_from_slice(b"\r\n");
        };
        push(b"RateLimit-Policy: ", [(b";q=", self.limit), (b";w=", self.seconds)]);
        push(b"RateLimit: ", [(b";r=", 0), (b";t=", self.reset_seconds)]);
    }
}

/// Response to a CORS preflight request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Preflight<'a> {
    /// `Access-Control-Allow-Methods`: the methods of the path.
    pub methods: &'static str,
    /// `Access-Control-Allow-Headers`: the requested names (`Access-Control-Request-Headers`) are
    /// echoed, because `Mcp-Param-*` names are unbounded and `*` does not include `Authorization`.
    pub headers: Option<&'a [u8]>,
    /// `Access-Control-Max-Age`: seconds for which a browser may cache the preflight.
    pub max_age_seconds: u32,
}

impl Preflight<'_> {
    fn write(self, out: &mut Vec<u8>) {
        push_field(out, b"Access-Control-Allow-Methods: ", self.methods.as_bytes());
        if let Some(headers) = self.headers {
            push_field(out, b"Access-Control-Allow-Headers: ", headers);
        }
        push_number_field(out, b"Access-Control-Max-Age: ", self.max_age_seconds);
    }
}

/// Appends a field line; `name` includes the colon and a space.
fn push_field(out: &mut Vec<u8>, name: &'static [u8], value: &[u8]) {
    out.extend_from_slice(name);
    push_value(out, value);
    out.extend_from_slice(b"\r\n");
}

fn push_number_field(out: &mut Vec<u8>, name: &'static [u8], number: u32) {
    out.extend_from_slice(name);
    write::unsigned(out, u64::from(number));
    out.extend_from_slice(b"\r\n");
}

/// Appends `value` with control characters, except tab, replaced by spaces.
pub(super) fn push_value(out: &mut Vec<u8>, value: &[u8]) {
    let start = out.len();
    out.extend_from_slice(value);
    for byte in &mut out[start..] {
        if byte.is_ascii_control() && *byte != b'\t' {
            *byte = b' ';
        }
    }
}

/// What scripts of other origins may do with a document (SEP-2127).
const DOCUMENT_HEADERS: &[u8] = b"Access-Control-Allow-Methods: GET\r\n\
Access-Control-Allow-Headers: Content-Type, If-None-Match\r\n\
Access-Control-Expose-Headers: ETag\r\n";

/// Fields that scripts may read in addition to the CORS-safelisted ones.
const EXPOSE_HEADERS: &[u8] = b"Access-Control-Expose-Headers: X-Request-ID, Mcp-Session-Id, \
MCP-Protocol-Version, Retry-After, RateLimit, RateLimit-Policy, WWW-Authenticate, DPoP-Nonce\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fields: &ResponseFields<'_>) -> String {
        let mut out = Vec::new();
        fields.write(&mut out);
        assert_eq!(out.is_empty(), fields.is_empty());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn empty_fields_write_nothing() {
        assert_eq!(written(&ResponseFields::default()), "");
    }

    #[test]
    fn each_field_is_written_on_its_own_line() {
        let fields = ResponseFields {
            session_id: Some(b"0123-abc"),
            protocol_version: Some("2025-11-25"),
            allow: Some("GET, POST"),
            accept_encoding_identity: true,
            retry_after_seconds: Some(120),
            rate_limit: Some(RateLimit {
                policy: "address-2",
                limit: 100,
                seconds: 60,
                reset_seconds: 3,
            }),
            www_authenticate: Some(Challenge {
                text: "Bearer realm=\"mcp\"",
                dpop_nonce: Some("n"),
            }),
            content_security_policy: Some("default-src 'none'"),
            max_age_seconds: Some(60),
            ..ResponseFields::default()
        };
        assert_eq!(
            written(&fields),
            "Mcp-Session-Id: 0123-abc\r\nMCP-Protocol-Version: 2025-11-25\r\n\
             Allow: GET, POST\r\nAccept-Encoding: identity\r\nRetry-After: 120\r\n\
             RateLimit-Policy: \"address-2\";q=100;w=60\r\n\
             RateLimit: \"address-2\";r=0;t=3\r\n\
             WWW-Authenticate: Bearer realm=\"mcp\"\r\nDPoP-Nonce: n\r\n\
             Content-Security-Policy: default-src 'none'\r\n\
             X-Content-Type-Options: nosniff\r\nCache-Control: public, max-age=60\r\n"
        );
    }

    #[test]
    fn echoed_origin_adds_vary() {
        let origin: Option<&[u8]> = Some(b"http://localhost:6274");
        let one = written(&ResponseFields { allow_origin: origin, ..ResponseFields::default() });
        assert!(one.starts_with(
            "Access-Control-Allow-Origin: http://localhost:6274\r\nVary: Origin\r\n\
             Access-Control-Expose-Headers: X-Request-ID, "
        ));
    }

    #[test]
    fn preflight_lists_methods_headers_and_max_age() {
        let preflight =
            Preflight { methods: "POST", headers: Some(b"authorization"), max_age_seconds: 7200 };
        let fields = ResponseFields {
            allow_origin: Some(b"http://a"),
            preflight: Some(preflight),
            ..ResponseFields::default()
        };
        assert_eq!(
            written(&fields),
            "Access-Control-Allow-Origin: http://a\r\nVary: Origin\r\n\
             Access-Control-Allow-Methods: POST\r\n\
             Access-Control-Allow-Headers: authorization\r\nAccess-Control-Max-Age: 7200\r\n"
        );
    }

    #[test]
    fn field_value_cannot_inject_a_line() {
        let origin = Some(&b"http://a\r\nSet-Cookie: b\0\x7f\tc"[..]);
        let text = written(&ResponseFields { allow_origin: origin, ..ResponseFields::default() });
        assert!(text.contains("Allow-Origin: http://a  Set-Cookie: b  \tc\r\n"));
    }
}
