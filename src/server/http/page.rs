//! The page at `/`: what this server is, how clients connect to it, and its tools to try.
//!
//! It is one static text, put together at compile time from the files of `page/`, and it is a
//! client like any other: what it shows it asks of `/mcp` and `/status`. Scripts and styles stand
//! inside it, and [`CONTENT_SECURITY_POLICY`] lets a browser run these and no others, load nothing
//! from elsewhere, and speak to this server alone. The tests below hold the policy to the text.
//!
//! Not here: who may see it, under which path and with which other headers; that is the ladder's.

/// The page, as `text/html; charset=utf-8`; some 45 KB, copied once an answer.
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
    include_str!("page/questions.js"),
    include_str!("page/snippets.js"),
    include_str!("page/tools.js"),
    include_str!("page/server.js"),
    "</script>\n</html>\n",
)
.as_bytes();

/// The value of `Content-Security-Policy` beside [`PAGE`]: the hashes are those of its script and
/// its style. Pictures and sounds come inside results, hence `data:`.
///
/// Source: W3C Content Security Policy Level 3; Trusted Types.
pub(in crate::server) const CONTENT_SECURITY_POLICY: &str = concat!(
    "default-src 'none'; ",
    "script-src 'sha256-ApHUD54e+aUBuozIvZuhngdoDIcrPW1MFsavS0fgWK8='; ",
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

    /// What stands between the one `begin` of the page and the next `end`.
    fn between(begin: &str, end: &str) -> &'static str {
        let mut parts = page().split(begin);
        let after = parts.nth(1).unwrap_or_else(|| panic!("there is no {begin}"));
        assert_eq!(parts.count(), 0, "there is one {begin}");
        after.split_once(end).unwrap_or_else(|| panic!("there is no {end}")).0
    }

    #[test]
    fn the_policy_names_the_script_and_the_style_of_the_page_and_no_others() {
        let style = between("<style>", "</style>");
        let script = between("<script type=\"module\">", "</script>");
        for (directive, text) in [("script-src", script), ("style-src", style)] {
            let hash = STANDARD.encode(Sha256::digest(text));
            let expected = format!("; {directive} 'sha256-{hash}'; ");
            assert!(CONTENT_SECURITY_POLICY.contains(&expected), "state {expected}");
        }
    }

    #[test]
    fn the_page_brings_no_script_and_no_style_that_the_policy_would_stop() {
        let markup = page().replace(between("<style>", "</style>"), "");
        let markup = markup.replace(between("<script type=\"module\">", "</script>"), "");
        assert_eq!(markup.matches("<script").count(), 1);
        for handler in [" onclick", " onload", " onsubmit", " style=", "javascript:"] {
            assert!(!markup.contains(handler), "{handler}");
        }
    }

    #[test]
    fn nothing_of_the_page_is_loaded_from_elsewhere() {
        for loader in [" src=", "@import", " url(", "import("] {
            assert!(!page().contains(loader), "{loader}");
        }
        let links: Vec<&str> = page().split("href=\"").skip(1).collect();
        assert!(links.iter().all(|link| link.starts_with("data:image/svg+xml,")), "{links:?}");
    }
}
