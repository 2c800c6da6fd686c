//! The web page at `/`: what this server offers, how clients connect, and a form for each tool.
//!
//! It is one static text, concatenated at compile time from the files of `page/`, and a client like
//! any other: it sends its requests to `/mcp` and `/status`. Scripts and styles are inline, and
//! [`CONTENT_SECURITY_POLICY`] allows only these, loads nothing from elsewhere, and connects to
//! this server only. The tests compare the policy with the text.
//!
//! Path, access checks and other headers are in `transport::http::checks`.

/// The page, `text/html; charset=utf-8`; about 45 KB, copied once per response.
pub(in crate::server) const PAGE: &[u8] = concat!(
    "<!doctype html>\n<html lang=\"en\">\n",
    include_str!("page/head.html"),
    "<style>\n",
    include_str!("page/style.css"),
    "</style>\n",
    include_str!("page/body.html"),
    "<script type=\"module\">\n",
    include_str!("page/base.js"),
    include_str!("page/protocol.js"),
    include_str!("page/forms.js"),
    include_str!("page/results.js"),
    include_str!("page/elicitation.js"),
    include_str!("page/snippets.js"),
    include_str!("page/tools.js"),
    include_str!("page/server.js"),
    "</script>\n</html>\n",
)
.as_bytes();

/// Value of `Content-Security-Policy` of [`PAGE`], with the hashes of its script and style. Results
/// contain images and audio inline, hence `data:`.
///
/// Source: W3C Content Security Policy Level 3; Trusted Types.
pub(in crate::server) const CONTENT_SECURITY_POLICY: &str = concat!(
    "default-src 'none'; ",
    "script-src 'sha256-AZt5MsB396vxNbE8BpO0qKwVK3J2HvFhcRqGaQIvmDg='; ",
    "style-src 'sha256-Dq8n34sLSBY8r8XDiLCVqtS1W5wXwntMbG2TzkE/EWc='; ",
    "connect-src 'self'; img-src data:; media-src data:; ",
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; ",
    "require-trusted-types-for 'script'; trusted-types 'none'",
);

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;

    fn page() -> &'static str {
        std::str::from_utf8(PAGE).expect("the page is UTF-8")
    }

    /// Returns the text between the only `begin` of the page and the next `end`.
    fn between(begin: &str, end: &str) -> &'static str {
        let mut parts = page().split(begin);
        let after = parts.nth(1).unwrap_or_else(|| panic!("{begin} not found"));
        assert_eq!(parts.count(), 0, "more than one {begin}");
        after.split_once(end).unwrap_or_else(|| panic!("{end} not found")).0
    }

    #[test]
    fn content_security_policy_hashes_match_the_page() {
        let style = between("<style>", "</style>");
        let script = between("<script type=\"module\">", "</script>");
        for (directive, text) in [("script-src", script), ("style-src", style)] {
            let hash = STANDARD.encode(Sha256::digest(text));
            let expected = format!("; {directive} 'sha256-{hash}'; ");
            assert!(CONTENT_SECURITY_POLICY.contains(&expected), "state {expected}");
        }
    }

    #[test]
    fn page_contains_no_blocked_scripts_or_styles() {
        let markup = page().replace(between("<style>", "</style>"), "");
        let markup = markup.replace(between("<script type=\"module\">", "</script>"), "");
        assert_eq!(markup.matches("<script").count(), 1);
        for handler in [" onclick", " onload", " onsubmit", " style=", "javascript:"] {
            assert!(!markup.contains(handler), "{handler}");
        }
    }

    #[test]
    fn page_loads_nothing_from_other_origins() {
        for loader in [" src=", "@import", " url(", "import("] {
            assert!(!page().contains(loader), "{loader}");
        }
        let links: Vec<&str> = page().split("href=\"").skip(1).collect();
        assert!(links.iter().all(|link| link.starts_with("data:image/svg+xml,")), "{links:?}");
    }
}
