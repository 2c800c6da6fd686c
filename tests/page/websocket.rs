//! A page that somebody wrote holds a session over a WebSocket, if it may.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::host::Host;
use crate::server::Server;

/// A name that is none of this machine; the browser believes that it is.
const ELSEWHERE: &str = "elsewhere.example";

/// A page with a dialogue in it, at an origin.
struct Page {
    browser: Browser,
    server: Server,
}

impl Page {
    /// Opens the page of `host`, known as `name`, and has it speak to the server.
    fn open(server: Server, host: &Host, name: &str) -> Self {
        let mut browser = Browser::start();
        browser.ask("Page.navigate", &json!({ "url": host.origin(name) }));
        let address = format!("ws://{}/mcp/ws", server.address);
        browser.evaluate("probe.until(() => typeof Dialogue === 'function')");
        let mut page = Self { browser, server };
        page.evaluate(&format!("globalThis.dialogue = new Dialogue('{address}'), true"));
        page
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        self.browser.evaluate(expression)
    }

    /// Whether the server has taken the upgrade.
    fn is_let_in(&mut self) -> bool {
        self.evaluate("dialogue.opened") == true
    }

    /// Begins a session as a client of 2025-11-25.
    fn begin(&mut self) -> Value {
        assert!(self.is_let_in());
        let parameters = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "page", "version": "1" },
        });
        let answer = self.evaluate(&format!("dialogue.ask(1, 'initialize', {parameters})"));
        self.evaluate("dialogue.tell('notifications/initialized', {})");
        answer
    }
}

#[test]
fn a_page_of_another_loopback_origin_holds_a_session() {
    let host = Host::start(include_str!("dialogue.js"));
    let mut page = Page::open(Server::start(&[]), &host, "127.0.0.1");
    let begun = page.begin();
    assert_eq!(begun["result"]["serverInfo"]["name"], "corelane", "{begun:#}");
    assert_eq!(begun["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(page.evaluate("dialogue.socket.protocol"), "mcp");

    let listed = page.evaluate("dialogue.ask(2, 'tools/list', {})");
    let tools = listed["result"]["tools"].as_array().expect("tools are listed");
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{listed:#}");
    let said = page.evaluate("dialogue.call(3, 'echo', { message: 'ünï ☃\\n𝄞' })");
    assert_eq!(said["result"]["content"][0]["text"], "ünï ☃\n𝄞", "{said:#}");

    let ended = page.evaluate("dialogue.close()");
    assert_eq!(ended, json!({ "code": 1000, "reason": "", "wasClean": true }));
}

#[test]
fn a_page_has_two_calls_at_once() {
    let host = Host::start(include_str!("dialogue.js"));
    let mut page = Page::open(Server::start(&[]), &host, "127.0.0.1");
    page.begin();
    // The first cannot be over before the second has come.
    let answers = page.evaluate(
        "(async () => {
            const first = dialogue.call('first', 'slow', { steps: 1000, step_ms: 60000 });
            const second = await dialogue.call('second', 'echo', { message: 'meanwhile' });
            dialogue.tell('notifications/cancelled', { requestId: 'first' });
            return second;
        })()",
    );
    assert_eq!(answers["result"]["content"][0]["text"], "meanwhile", "{answers:#}");
    let answers = page.evaluate(
        "Promise.all([
            dialogue.call('third', 'slow', { steps: 2, step_ms: 50 }),
            dialogue.call('fourth', 'add', { a: 2, b: 40 }),
        ])",
    );
    assert_eq!(answers[0]["result"]["content"][0]["text"], "took 2 steps of 50 ms");
    assert_eq!(answers[1]["result"]["structuredContent"]["sum"].as_f64(), Some(42.0));
    let order = page.evaluate("dialogue.answered");
    assert_eq!(order, json!([1, "second", "fourth", "third"]), "each when it is ready");
}

#[test]
fn the_page_of_the_server_itself_may_open_one() {
    let server = Server::start(&[]);
    let mut browser = Browser::start();
    browser.ask("Page.navigate", &json!({ "url": format!("http://{}/", server.address) }));
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

#[test]
fn a_page_of_a_foreign_origin_is_refused_unless_it_is_listed() {
    let host = Host::start(include_str!("dialogue.js"));
    let mut page = Page::open(Server::start(&[]), &host, ELSEWHERE);
    assert!(!page.is_let_in(), "anybody's page could use what runs on this machine");
    let ended = page.evaluate("dialogue.closed");
    assert_eq!((&ended["code"], &ended["wasClean"]), (&json!(1006), &json!(false)));

    let origin = host.origin(ELSEWHERE);
    let mut page = Page::open(Server::start(&["--http-origins", &origin]), &host, ELSEWHERE);
    assert!(page.is_let_in());
}

#[test]
fn a_page_is_told_when_the_server_goes() {
    let host = Host::start(include_str!("dialogue.js"));
    let mut page = Page::open(Server::start(&[]), &host, "127.0.0.1");
    page.begin();
    page.server.drain();
    assert_eq!(page.evaluate("dialogue.closed")["code"], 1001);
}
