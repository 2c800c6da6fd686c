//! The calls of a client.

use std::pin::Pin;
use std::time::Duration;

use corelane::client::{Client, ClientError};
use corelane_base::random::Random;
use serde_json::{Value, json};

use super::catalog::resource_uri;

/// A call in progress; its output is the text of the result.
pub(crate) type CallFuture = Pin<Box<dyn Future<Output = Result<String, ClientError>>>>;

/// What a call is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CallKind {
    /// A tool that answers at once, with a result of at least `padding` bytes.
    Run { padding: usize },
    /// A tool that reports its progress.
    Work { steps: u32, pause: Duration },
    /// `prompts/get`.
    Prompt,
    /// `resources/read`.
    Resource,
    /// `ping`, or `server/discover`.
    Ping,
    /// `tools/list`.
    ListTools,
}

/// A call to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedCall {
    /// The number of the call in its run.
    pub(crate) number: usize,
    pub(crate) client: usize,
    pub(crate) at: Duration,
    pub(crate) kind: CallKind,
    /// Time to the response, if the kind of call has one of its own.
    pub(crate) timeout: Duration,
    /// The call is dropped after this time.
    pub(crate) cancelled_after: Option<Duration>,
}

impl CallKind {
    pub(crate) fn draw(random: &mut Random) -> Self {
        match random.below(12) {
            0..=3 => Self::Run { padding: 0 },
            4 => Self::Run { padding: 1 << random.below(17) },
            5..=7 => Self::Work {
                steps: random.below(6) as u32,
                pause: Duration::from_micros(random.below(40_000) as u64),
            },
            8 => Self::Prompt,
            9 => Self::Resource,
            10 => Self::Ping,
            _ => Self::ListTools,
        }
    }

    /// Returns whether the call must not be executed twice.
    pub(crate) const fn is_tool_call(self) -> bool {
        matches!(self, Self::Run { .. } | Self::Work { .. })
    }

    /// Returns whether the answer names the call.
    pub(crate) const fn is_numbered(self) -> bool {
        !matches!(self, Self::Ping | Self::ListTools)
    }

    /// Returns whether the call has the timeout that it is given.
    pub(crate) const fn has_timeout(self) -> bool {
        self.is_numbered()
    }
}

/// Makes a call.
pub(crate) fn start(client: &Client, call: &PlannedCall) -> CallFuture {
    let PlannedCall { number, kind, timeout, .. } = *call;
    match kind {
        CallKind::Run { padding } => {
            let request = client.call_tool("run", &json!({ "number": number, "padding": padding }));
            let response = request.timeout(timeout).into_future();
            Box::pin(async move { Ok(response.await?.text()) })
        }
        CallKind::Work { steps, pause } => {
            let pause_us = pause.as_micros() as u64;
            let arguments = json!({ "number": number, "steps": steps, "pause_us": pause_us });
            let request = client.call_tool("work", &arguments).on_progress(|_| {});
            let response = request.timeout(timeout).into_future();
            Box::pin(async move { Ok(response.await?.text()) })
        }
        CallKind::Prompt => {
            let arguments = json!({ "number": number.to_string() });
            let params = json!({ "name": "ask", "arguments": arguments });
            start_request(client, "prompts/get", &params, timeout)
        }
        CallKind::Resource => start_request(
            client,
            "resources/read",
            &json!({ "uri": resource_uri(number) }),
            timeout,
        ),
        CallKind::Ping => {
            let client = client.clone();
            Box::pin(async move { client.ping().await.map(|()| String::new()) })
        }
        CallKind::ListTools => {
            let client = client.clone();
            Box::pin(async move {
                let tools = client.list_tools().await?;
                Ok(tools.iter().flat_map(|tool| [&*tool.name, " "]).collect())
            })
        }
    }
}

fn start_request(client: &Client, method: &str, params: &Value, timeout: Duration) -> CallFuture {
    let response = client.request::<Value>(method, params).timeout(timeout).into_future();
    Box::pin(async move { Ok(response.await?.to_string()) })
}
