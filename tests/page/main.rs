//! The page at `/`, and pages that speak over WebSocket, in a real browser against the real server.
//!
//! A headless Chromium (`tests/page/install.sh` installs Debian's) is driven over its debugging
//! protocol through a pipe: no port, no driver, no package. The tests use the page as people do, by
//! names, keys and clicks, and read what it shows; `probe.js` is what of that runs inside the page.
//! Nothing sleeps: waiting is the page's own notice that it changed.
//!
//! Every test of the page at `/` ends with the same look back, in [`stage::Stage`]: no error in the
//! browser's log but those that the test asked for, and no request to anyone but the server.

#![cfg(unix)]

mod browser;
mod calls;
mod connecting;
mod host;
mod looks;
mod questions;
mod server;
mod stage;
mod standing;
mod websocket;
