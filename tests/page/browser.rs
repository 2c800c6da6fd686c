//! A headless Chromium and one tab of it, driven over the debugging protocol through a pipe.
//!
//! Source: the Chrome `DevTools` Protocol; messages are JSON texts that end with a NUL, read by the
//! browser from descriptor 3 and written to descriptor 4.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::PATIENCE;

/// A browser with one tab. Dropping it ends the browser.
pub(crate) struct Browser {
    child: Child,
    writer: ChildStdin,
    messages: Receiver<Value>,
    /// The events of the tab that nobody has looked at yet.
    events: Vec<Value>,
    session: Option<String>,
    last_id: u64,
    profile: TempDir,
}

impl Browser {
    /// Starts a browser with an empty profile and opens a tab.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().expect("a folder for the profile");
        let log = fs::File::create(profile.path().join("log")).expect("a log beside the profile");
        // The shell lends our pipes to the descriptors at which the browser looks for them.
        let mut child = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("a shell starts");
        let writer = child.stdin.take().expect("the way in is a pipe");
        let mut reader = BufReader::new(child.stdout.take().expect("the way out is a pipe"));
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
        let target = self.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let which = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.ask("Target.attachToTarget", &which);
        self.session = Some(attached["sessionId"].as_str().expect("a session").to_owned());
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            self.ask(&format!("{domain}.enable"), &json!({}));
        }
        let probe = json!({ "source": include_str!("probe.js") });
        self.ask("Page.addScriptToEvaluateOnNewDocument", &probe);
    }

    /// One command of the debugging protocol, to the tab once there is one.
    pub(crate) fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        let said = self.writer.write_all(format!("{command}\0").as_bytes());
        said.and_then(|()| self.writer.flush()).unwrap_or_else(|error| self.fail(&error));
        loop {
            let mut message = match self.messages.recv_timeout(PATIENCE) {
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

    /// What the tab told since the last time.
    pub(crate) fn take_events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    /// The value of an expression in the page; one that is a promise is waited for.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({
            "expression": expression,
            "awaitPromise": true,
            "returnByValue": true,
            "userGesture": true,
        });
        let mut answer = self.ask("Runtime.evaluate", &asked);
        let problem = &answer["exceptionDetails"];
        assert!(problem.is_null(), "{expression}: {problem:#}");
        answer["result"]["value"].take()
    }

    /// Presses and releases a key: a name of the DOM such as `Enter` or `Tab`.
    pub(crate) fn press(&mut self, key: &str, with_shift: bool) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "ArrowRight" => (39, ""),
            " " => (32, " "),
            _ => panic!("the code of the key {key} is not known here"),
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
            self.ask("Input.dispatchKeyEvent", &event);
        }
    }

    /// Types into what has the focus.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.ask("Input.insertText", &json!({ "text": text }));
    }

    fn fail(&self, reason: &dyn std::fmt::Display) -> ! {
        let log = fs::read_to_string(self.profile.path().join("log")).unwrap_or_default();
        panic!("the browser: {reason}; tests/page/install.sh installs one; it told:\n{log}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The end of the pipe ends a browser and its processes; one that hangs is killed.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Without a sandbox, because containers forbid it and every page is ours. One name that is none of
/// this machine leads to it nevertheless: for pages of somebody else.
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
