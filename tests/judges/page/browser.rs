//! A headless Chromium with one tab, driven over the Chrome `DevTools` Protocol through a pipe.
//!
//! Messages are NUL-terminated JSON, which the browser reads from descriptor 3 and writes to
//! descriptor 4.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use corelane_test_support::TIMEOUT;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser with one tab; killed when dropped.
pub(crate) struct Browser {
    child: Child,
    writer: ChildStdin,
    messages: Receiver<Value>,
    /// Events of the tab since the last `take_events`.
    events: Vec<Value>,
    session: Option<String>,
    last_id: u64,
    profile: TempDir,
}

impl Browser {
    /// Starts a browser with an empty profile and opens a tab.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().expect("a directory for the profile");
        let log = fs::File::create(profile.path().join("log")).expect("a log beside the profile");
        // The shell maps the pipes to the descriptors that the browser expects. A browser that is
        // killed leaves its temporary files, which end with the profile.
        let mut child = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("TMPDIR", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("a shell starts");
        let writer = child.stdin.take().expect("standard input is a pipe");
        let mut reader = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let (sender, messages) = channel();
        thread::spawn(move || {
            loop {
                let mut text = Vec::new();
                let length = reader.read_until(0, &mut text).unwrap_or(0);
                let message = serde_json::from_slice(text.strip_suffix(b"\0").unwrap_or(&text));
                if length == 0 || message.is_ok_and(|message| sender.send(message).is_err()) {
                    break;
                }
            }
        });
        let (events, session) = (Vec::new(), None);
        let mut browser = Self { child, writer, messages, events, session, last_id: 0, profile };
        browser.open_tab();
        browser
    }

    fn open_tab(&mut self) {
        let target = self.send_command("Target.createTarget", &json!({ "url": "about:blank" }));
        let params = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.send_command("Target.attachToTarget", &params);
        self.session = Some(attached["sessionId"].as_str().expect("a session").to_owned());
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            self.send_command(&format!("{domain}.enable"), &json!({}));
        }
        let probe = json!({ "source": include_str!("probe.js") });
        self.send_command("Page.addScriptToEvaluateOnNewDocument", &probe);
    }

    /// Sends a command, to the tab if it is open, and returns its result.
    pub(crate) fn send_command(&mut self, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        let sent = self.writer.write_all(format!("{command}\0").as_bytes());
        sent.and_then(|()| self.writer.flush()).unwrap_or_else(|error| self.fail(&error));
        loop {
            let mut message = match self.messages.recv_timeout(TIMEOUT) {
                Ok(message) => message,
                Err(reason) => self.fail(&format_args!("{reason} in {command}")),
            };
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{command}: {}", message["error"]);
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    /// Returns the events of the tab since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    /// Evaluates an expression in the page, awaiting a promise.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression,
            "awaitPromise": true,
            "returnByValue": true,
            "userGesture": true,
        });
        let mut result = self.send_command("Runtime.evaluate", &params);
        let exception = &result["exceptionDetails"];
        assert!(exception.is_null(), "{expression}: {exception:#}");
        result["result"]["value"].take()
    }

    /// Presses and releases a key, named as in the DOM: `Enter`, `Tab`.
    pub(crate) fn press(&mut self, key: &str, with_shift: bool) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "ArrowRight" => (39, ""),
            " " => (32, " "),
            _ => panic!("no key code for {key}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({
                "type": kind,
                "key": key,
                "code": key,
                "windowsVirtualKeyCode": code,
                "modifiers": if with_shift { 8 } else { 0 },
            });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.send_command("Input.dispatchKeyEvent", &event);
        }
    }

    /// Types into the focused element.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.send_command("Input.insertText", &json!({ "text": text }));
    }

    fn fail(&self, reason: &dyn std::fmt::Display) -> ! {
        let log = fs::read_to_string(self.profile.path().join("log")).unwrap_or_default();
        panic!(
            "the browser failed: {reason}; tests/judges/page/install.sh installs one; its \
             log:\n{log}"
        );
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser exits when its pipe closes; this kills one that hangs.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Without a sandbox, because containers forbid it and every page is trusted. `elsewhere.example`
/// resolves to loopback, for pages of a foreign origin.
const FLAGS: [&str; 8] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP elsewhere.example 127.0.0.1",
    "about:blank",
];
