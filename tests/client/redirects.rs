//! Redirects of servers over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use corelane::client::{ClientErrorKind, EraPreference};
use serde_json::json;

use super::discover_result;
use super::http_peer::{HttpRequest, http_response, text_result};
use super::http_responder::{HttpResponder, Reply};

/// Redirects what is sent to `/mcp` with this status and location.
fn redirect(request: &HttpRequest, status: &str, location: &str) -> Reply {
    Reply::Send(match request.line() {
        "POST /moved" => {
            assert_eq!(request.header("Authorization"), Some("Bearer secret"));
            let message = match request.body["method"].as_str() {
                Some("tools/call") => text_result(request, "here"),
                _ => discover_result(&request.body),
            };
            http_response("200 OK", "Content-Type: application/json\r\n", &message.to_string())
        }
        _ => http_response(status, &format!("Location: {location}\r\n"), ""),
    })
}

/// Returns how many requests to the first path two calls make, after the handshake.
fn redirected_requests(status: &'static str) -> usize {
    let redirected = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&redirected);
    let server = HttpResponder::start(move |request| {
        counted.fetch_add(usize::from(request.line() == "POST /mcp"), Ordering::Relaxed);
        redirect(request, status, "/moved")
    });
    let client = server.client().era(EraPreference::Modern).bearer("secret");
    let client = client.connect_blocking().expect("a handshake");
    for _ in 0..2 {
        let result = client.call_tool("a", &json!({})).wait().expect("a result");
        assert_eq!(result.text(), "here");
    }
    drop(client);
    server.stop();
    redirected.load(Ordering::Relaxed)
}

#[test]
fn temporary_redirect_concerns_its_request_only() {
    assert_eq!(redirected_requests("307 Temporary Redirect"), 3);
}

#[test]
fn permanent_redirect_concerns_later_requests() {
    assert_eq!(redirected_requests("308 Permanent Redirect"), 1);
}

#[test]
fn redirect_to_another_origin_is_refused() {
    for (status, location) in [
        ("307 Temporary Redirect", "http://192.0.2.1/moved"),
        ("308 Permanent Redirect", "https://127.0.0.1/moved"),
        ("302 Found", "/moved"),
    ] {
        let server = HttpResponder::start(move |request| redirect(request, status, location));
        let client = server.client().era(EraPreference::Modern).bearer("secret");
        let error = client.connect_blocking().unwrap_err();
        let text =
            std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let text: String = text.map(ToString::to_string).collect();
        assert!(text.contains(&format!("redirects to {location}")), "{text}");
        server.stop();
    }
}

#[test]
fn endless_redirects_end() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let server = HttpResponder::start(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Reply::Send(http_response("307 Temporary Redirect", "Location: /mcp\r\n", ""))
    });
    let error = server.client().era(EraPreference::Modern).connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Handshake, "{error}");
    assert_eq!(requests.load(Ordering::Relaxed), 6);
    server.stop();
}
