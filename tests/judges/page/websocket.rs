//! MCP sessions of browser pages over WebSocket, and the origin check.

use corelane_test_support::ServeProcess;
use corelane_test_support::process::Signal;
use serde_json::{Value, json};

use crate::page::browser::Browser;
use crate::page::foreign_site::ForeignSite;
use crate::page::page_test::start_server;

/// A foreign host name; the browser resolves it to loopback.
const FOREIGN_NAME: &str = "elsewhere.example";

/// A page of some origin with an `McpClient`.
struct WebSocketPage {
    browser: Browser,
    server: ServeProcess,
}

impl WebSocketPage {
    /// Opens the page of `host` under the host name `name` and connects it to the server.
    fn open(server: ServeProcess, host: &ForeignSite, name: &str) -> Self {
        let mut browser = Browser::start();
        browser.send_command("Page.navigate", &json!({ "url": host.origin(name) }));
        let address = format!("ws://{}/mcp/ws", server.address);
        browser.evaluate("probe.until(() => typeof McpClient === 'function')");
        let mut page = Self { browser, server };
        page.evaluate(&format!("globalThis.client = new McpClient('{address}'), true"));
        page
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        self.browser.evaluate(expression)
    }

    /// Whether the server accepted the upgrade.
    fn is_accepted(&mut self) -> bool {
        self.evaluate("client.opened") == true
    }

    /// Initializes a session of 2025-11-25.
    fn initialize(&mut self) -> Value {
        assert!(self.is_accepted());
        let parameters = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "page", "version": "1" },
        });
        let answer = self.evaluate(&format!("client.request(1, 'initialize', {parameters})"));
        self.evaluate("client.notify('notifications/initialized', {})");
        answer
    }
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn loopback_origin_page_holds_websocket_session() {
    let host = ForeignSite::start(include_str!("mcp_client.js"));
    let mut page = WebSocketPage::open(start_server(&[]), &host, "127.0.0.1");
    let initialized = page.initialize();
    assert_eq!(initialized["result"]["serverInfo"]["name"], "corelane", "{initialized:#}");
    assert_eq!(initialized["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(page.evaluate("client.socket.protocol"), "mcp");

    let listed = page.evaluate("client.request(2, 'tools/list', {})");
    let tools = listed["result"]["tools"].as_array().expect("tools are listed");
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{listed:#}");
    let echoed = page.evaluate("client.call(3, 'echo', { message: 'ünï ☃\\n𝄞' })");
    assert_eq!(echoed["result"]["content"][0]["text"], "ünï ☃\n𝄞", "{echoed:#}");

    let closed = page.evaluate("client.close()");
    assert_eq!(closed, json!({ "code": 1000, "reason": "", "wasClean": true }));
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn concurrent_calls_over_websocket_both_complete() {
    let host = ForeignSite::start(include_str!("mcp_client.js"));
    let mut page = WebSocketPage::open(start_server(&[]), &host, "127.0.0.1");
    page.initialize();
    // The first call is still running when the second arrives.
    let answers = page.evaluate(
        "(async () => {
            const first = client.call('first', 'slow', { steps: 1000, step_ms: 60000 });
            const second = await client.call('second', 'echo', { message: 'meanwhile' });
            client.notify('notifications/cancelled', { requestId: 'first' });
            return second;
        })()",
    );
    assert_eq!(answers["result"]["content"][0]["text"], "meanwhile", "{answers:#}");
    let answers = page.evaluate(
        "Promise.all([
            client.call('third', 'slow', { steps: 2, step_ms: 50 }),
            client.call('fourth', 'add', { a: 2, b: 40 }),
        ])",
    );
    assert_eq!(answers[0]["result"]["content"][0]["text"], "took 2 steps of 50 ms");
    assert_eq!(answers[1]["result"]["structuredContent"]["sum"].as_f64(), Some(42.0));
    let order = page.evaluate("client.receivedIds");
    assert_eq!(order, json!([1, "second", "fourth", "third"]), "responses in order of completion");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn server_page_may_open_websocket() {
    let server = start_server(&[]);
    let mut browser = Browser::start();
    browser.send_command("Page.navigate", &json!({ "url": format!("http://{}/", server.address) }));
    let opened = format!("new WebSocket('ws://{}/mcp/ws', 'mcp')", server.address);
    let opened = browser.evaluate(&format!(
        "new Promise((resolve) => {{
            const socket = {opened};
            socket.onopen = () => resolve(socket.protocol);
            socket.onclose = () => resolve('refused');
        }})"
    ));
    assert_eq!(opened, "mcp");
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn foreign_origin_websocket_needs_http_origins_entry() {
    let host = ForeignSite::start(include_str!("mcp_client.js"));
    let mut page = WebSocketPage::open(start_server(&[]), &host, FOREIGN_NAME);
    assert!(!page.is_accepted(), "a foreign page must not reach a local server");
    let closed = page.evaluate("client.closed");
    assert_eq!((&closed["code"], &closed["wasClean"]), (&json!(1006), &json!(false)));

    let origin = host.origin(FOREIGN_NAME);
    let mut page =
        WebSocketPage::open(start_server(&["--http-origins", &origin]), &host, FOREIGN_NAME);
    assert!(page.is_accepted());
}

#[ignore = "needs Chromium: ./test.sh installs it and runs the test"]
#[test]
fn websocket_page_receives_close_1001_on_drain() {
    let host = ForeignSite::start(include_str!("mcp_client.js"));
    let mut page = WebSocketPage::open(start_server(&[]), &host, "127.0.0.1");
    page.initialize();
    page.server.process.signal(Signal::TERM);
    assert_eq!(page.evaluate("client.closed")["code"], 1001);
}
