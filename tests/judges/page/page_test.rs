//! The fixture of page tests: a server, a browser and the open page.

use corelane_test_support::ServeProcess;
use serde_json::{Value, json};

use crate::CORELANE;
use crate::page::browser::Browser;

/// The open page. When a test succeeds, its drop checks the events of the browser.
pub(crate) struct PageTest {
    pub(crate) server: ServeProcess,
    pub(crate) browser: Browser,
    /// Parts of the errors that this test expects in the log.
    expected: Vec<&'static str>,
}

/// Outcome of a call as shown by the page.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) headline: String,
    pub(crate) blocks: Vec<String>,
    pub(crate) media: Vec<String>,
}

/// Starts a server of the conformance fixture with further `options`.
pub(crate) fn start_server(options: &[&str]) -> ServeProcess {
    let options = [&["--demo", "conformance"], options].concat();
    ServeProcess::http(CORELANE, &options)
}

impl PageTest {
    /// Starts a server, opens its page and waits until it shows the tools.
    pub(crate) fn open() -> Self {
        Self::open_until(start_server(&[]), "probe.tool('echo')?.checkVisibility()")
    }

    /// Opens the page of a server and waits until an expression is truthy in it.
    pub(crate) fn open_until(server: ServeProcess, expression: &str) -> Self {
        let mut page = Self { server, browser: Browser::start(), expected: Vec::new() };
        page.set_viewport(1280, 900, "light");
        let address = page.url("/");
        page.browser.send_command("Page.navigate", &json!({ "url": address }));
        page.until(expression);
        page
    }

    /// Returns the URL of a path of the server.
    pub(crate) fn url(&self, path: &str) -> String {
        self.server.url(path)
    }

    /// Sets the window size and the colour scheme.
    pub(crate) fn set_viewport(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.browser.send_command("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.browser.send_command("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Waits until an expression is truthy in the page and returns its value.
    pub(crate) fn until(&mut self, expression: &str) -> Value {
        self.browser.evaluate(&format!("probe.until(() => {expression})"))
    }

    /// Returns the text of the first element that matches a selector.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text =
            self.browser.evaluate(&format!("document.querySelector('{selector}').innerText"));
        text.as_str().expect("a string").to_owned()
    }

    /// Opens a tool and waits for its form.
    pub(crate) fn open_tool(&mut self, tool: &str) {
        self.browser.evaluate(&format!("probe.tool('{tool}').open ||= true"));
        self.until(&format!("probe.button(probe.tool('{tool}'), 'Call')"));
    }

    /// Replaces the value of the field with this label.
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

    /// Opens a tool, fills its fields, calls it and waits for the outcome.
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
        self.outcome_at(&format!("probe.tool('{tool}')"))
    }

    /// Waits for the end of the request of the entry that `entry` evaluates to.
    pub(crate) fn outcome_at(&mut self, entry: &str) -> Outcome {
        let outcome = self.until(&format!("probe.outcomeOf({entry})"));
        let texts = |key: &str| {
            let list = outcome[key].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let headline = outcome["headline"].as_str().expect("a headline").to_owned();
        Outcome { headline, blocks: texts("blocks"), media: texts("media") }
    }

    /// Expects an error that contains `part` in the log of the browser.
    pub(crate) fn expect_error(&mut self, part: &'static str) {
        self.expected.push(part);
    }

    /// Asserts that there was no unexpected error and no request to another host.
    fn check_events(&mut self) {
        self.browser.evaluate("0");
        let origin = self.url("/");
        for event in self.browser.take_events() {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Log.entryAdded" | "Runtime.exceptionThrown" => {
                    let text = params.to_string();
                    let is_expected = self.expected.iter().any(|part| text.contains(part));
                    assert!(is_expected, "error in the browser: {params:#}");
                }
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str().expect("a URL");
                    let is_allowed = url.starts_with(&origin) || url.starts_with("data:");
                    assert!(is_allowed, "request to {url}");
                }
                _ => {}
            }
        }
    }
}

impl Drop for PageTest {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check_events();
        }
    }
}
