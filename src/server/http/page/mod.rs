//! The web page at `/`: what this server offers, how clients connect, and a form for each tool,
//! prompt and resource; of a gateway also the upstreams, with buttons for operators.
//!
//! It is a static text, concatenated at compile time from the files of `page/`, with the path of
//! MCP in it, and a client like any other: it sends its requests to that path, to
//! `/status` and to `/upstreams`.
//! Scripts and styles are inline, and [`CONTENT_SECURITY_POLICY`] allows only these, loads nothing
//! from elsewhere, and connects to this server only. The tests compare the policy with the text.
//!
//! Path, access checks and other headers are in `transport::http::checks`.

/// Returns the page, `text/html; charset=utf-8`, about 50 KB, for the path of the MCP endpoint.
pub fn write_page(mcp_path: &str) -> String {
    let path = mcp_path.replace('&', "&amp;").replace('"', "&quot;");
    [BEFORE_PATH, &path, AFTER_PATH].concat()
}

const BEFORE_PATH: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n",
    include_str!("head.html"),
    "<meta name=\"mcp-path\" content=\"",
);

const AFTER_PATH: &str = concat!(
    "\">\n<style>\n",
    include_str!("style.css"),
    "</style>\n",
    include_str!("body.html"),
    "<script type=\"module\">\n",
    include_str!("base.js"),
    include_str!("protocol.js"),
    include_str!("forms.js"),
    include_str!("results.js"),
    include_str!("elicitation.js"),
    include_str!("snippets.js"),
    include_str!("tools.js"),
    include_str!("lists.js"),
    include_str!("upstreams.js"),
    include_str!("server.js"),
    "</script>\n</html>\n",
);

/// Value of `Content-Security-Policy` of the page, with the hashes of its script and style. Results
/// contain images and audio inline, hence `data:`.
///
/// Source: W3C Content Security Policy Level 3; Trusted Types.
pub const CONTENT_SECURITY_POLICY: &str = concat!(
    "default-src 'none'; ",
    "script-src 'sha256-3cxEBwn5O7P2XooYGHAdgKEaj6hqTdd+7hu5JsxpfbI='; ",
    "style-src 'sha256-2wny1FGu7ekRitqtLC/5M8hno0hLcdKroPPEJxK7bEE='; ",
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

    fn page() -> String {
        write_page("/mcp")
    }

    /// Returns the text between the only `begin` of the page and the next `end`.
    fn between(begin: &str, end: &str) -> String {
        let page = page();
        let mut parts = page.split(begin);
        let after = parts.nth(1).unwrap_or_else(|| panic!("{begin} not found"));
        assert_eq!(parts.count(), 0, "more than one {begin}");
        after.split_once(end).unwrap_or_else(|| panic!("{end} not found")).0.to_owned()
    }

    #[test]
    fn content_security_policy_hashes_match_the_page() {
        let style = between("<style>", "</style>");
        let script = between("<script type=\"module\">", "</script>");
        for (directive, text) in [("script-src", script), ("style-src", style)] {
            let hash = STANDARD.encode(Sha256::digest(&text));
            let expected = format!("; {directive} 'sha256-{hash}'; ");
            assert!(CONTENT_SECURITY_POLICY.contains(&expected), "state {expected}");
        }
    }

    #[test]
    fn page_contains_no_blocked_scripts_or_styles() {
        let markup = page().replace(&between("<style>", "</style>"), "");
        let markup = markup.replace(&between("<script type=\"module\">", "</script>"), "");
        assert_eq!(markup.matches("<script").count(), 1);
        for handler in [" onclick", " onload", " onsubmit", " style=", "javascript:"] {
            assert!(!markup.contains(handler), "{handler}");
        }
    }

    #[test]
    fn page_loads_nothing_from_other_origins() {
        let page = page();
        for loader in [" src=", "@import", " url(", "import("] {
            assert!(!page.contains(loader), "{loader}");
        }
        let links: Vec<&str> = page.split("href=\"").skip(1).collect();
        assert!(links.iter().all(|link| link.starts_with("data:image/svg+xml,")), "{links:?}");
    }

    #[test]
    fn path_of_mcp_is_escaped_in_the_page() {
        assert!(page().contains("<meta name=\"mcp-path\" content=\"/mcp\">\n<style>"));
        let page = write_page("/a&lt;/\">");
        assert!(page.contains("content=\"/a&amp;lt;/&quot;>\">\n<style>"));
    }
}
