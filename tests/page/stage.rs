//! A server, a browser and the page open in it: what every test stands on.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::server::Server;

/// The page, open. When a test has ended well it looks back at what the browser noticed.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) browser: Browser,
    /// Parts of log lines that this test brings about on purpose.
    expected: Vec<&'static str>,
}

/// What a call came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) headline: String,
    pub(crate) blocks: Vec<String>,
    pub(crate) media: Vec<String>,
}

impl Stage {
    /// Starts a server, opens its page and waits until it shows the tools.
    pub(crate) fn open() -> Self {
        let mut stage =
            Self { server: Server::start(&[]), browser: Browser::start(), expected: Vec::new() };
        stage.look(1280, 900, "light");
        let address = stage.address("/");
        stage.browser.ask("Page.navigate", &json!({ "url": address }));
        stage.until("probe.tool('echo')?.checkVisibility()");
        stage
    }

    /// The address of something that the server serves.
    pub(crate) fn address(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address)
    }

    /// Sets the size of the window and the scheme of colours.
    pub(crate) fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.browser.ask("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.browser.ask("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Waits until an expression is true of the page, and gives its value.
    pub(crate) fn until(&mut self, expression: &str) -> Value {
        self.browser.evaluate(&format!("probe.until(() => {expression})"))
    }

    /// The text of the first element that a selector finds.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text =
            self.browser.evaluate(&format!("document.querySelector('{selector}').innerText"));
        text.as_str().expect("a text").to_owned()
    }

    /// Opens the line of a tool and waits for what is below it.
    pub(crate) fn open_tool(&mut self, tool: &str) {
        self.browser.evaluate(&format!("probe.tool('{tool}').open ||= true"));
        self.until(&format!("probe.button(probe.tool('{tool}'), 'Call')"));
    }

    /// Types a value into the field with this label, in place of what it holds.
    pub(crate) fn fill(&mut self, tool: &str, label: &str, value: &str) {
        let field = format!("probe.field(probe.tool('{tool}'), '{label}')");
        self.browser.evaluate(&format!("{field}.focus(), {field}.select()"));
        self.browser.type_text(value);
    }

    /// Clicks a button of a tool.
    pub(crate) fn click(&mut self, tool: &str, label: &str) {
        let button = format!("probe.button(probe.tool('{tool}'), '{label}')");
        self.browser.evaluate(&format!("{button}.click()"));
    }

    /// Opens a tool, fills its fields and calls it to its end.
    pub(crate) fn call(&mut self, tool: &str, values: &[(&str, &str)]) -> Outcome {
        self.open_tool(tool);
        for (label, value) in values {
            self.fill(tool, label, value);
        }
        self.click(tool, "Call");
        self.outcome(tool)
    }

    /// Waits for the end of a call.
    pub(crate) fn outcome(&mut self, tool: &str) -> Outcome {
        let outcome = self.until(&format!("probe.outcome('{tool}')"));
        let texts = |key: &str| {
            let list = outcome[key].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let headline = outcome["headline"].as_str().expect("a headline").to_owned();
        Outcome { headline, blocks: texts("blocks"), media: texts("media") }
    }

    /// Says that the browser will log an error with this in it.
    pub(crate) fn expect_error(&mut self, part: &'static str) {
        self.expected.push(part);
    }

    /// Looks back: no error but the expected ones, and nobody asked but the server.
    fn review(&mut self) {
        self.browser.evaluate("0");
        let home = self.address("/");
        for event in self.browser.take_events() {
            let facts = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Log.entryAdded" | "Runtime.exceptionThrown" => {
                    let text = facts.to_string();
                    let is_expected = self.expected.iter().any(|part| text.contains(part));
                    assert!(is_expected, "the browser complains: {facts:#}");
                }
                "Network.requestWillBeSent" => {
                    let address = facts["request"]["url"].as_str().expect("an address");
                    let is_ours = address.starts_with(&home) || address.starts_with("data:");
                    assert!(is_ours, "the page asks {address}");
                }
                _ => {}
            }
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.review();
        }
    }
}
