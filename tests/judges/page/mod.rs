//! The page at `/`, and pages that use WebSocket, in a real browser against the real server.
//!
//! A headless Chromium (`tests/judges/page/install.sh` installs Debian's) is driven over its
//! debugging protocol through a pipe, without a port, driver or package. The tests use the page by
//! accessible names, keys and clicks, and read what it shows; `probe.js` runs inside the page.
//! Waiting uses a `MutationObserver`, no test sleeps.
//!
//! Every test of the page at `/` ends with the same checks, in [`page_test::PageTest`]: no
//! unexpected error in the browser's log, and no request to another host.

#![cfg(unix)]

mod browser;
mod calls;
mod elicitation;
mod foreign_site;
mod layout;
mod lists;
mod overview;
mod page_test;
mod snippets;
mod upstreams;
mod websocket;
