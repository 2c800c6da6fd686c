//! The tool `random`: seed and message decide whether a call is answered, how and when.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::{io, process};

use serde_json::{Value, json};

use crate::server::{Request, RpcError, Server};

/// Polls after which an answer that waits for other calls is written without them.
const POLLS_MAX: u32 = 5;

/// Calls of `random`.
#[derive(Default)]
pub(crate) struct RandomCalls {
    /// The arguments `owner` of all calls.
    owners: BTreeSet<String>,
    waiting: Vec<Waiting>,
}

/// A call that is answered after others.
struct Waiting {
    request: Request,
    calls_left: u64,
    polls_left: u32,
}

impl RandomCalls {
    pub(crate) const fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn cancel(&mut self, id: &Value) {
        self.waiting.retain(|call| call.request.id != *id);
    }

    fn take_due(&mut self) -> Vec<Waiting> {
        self.waiting.extract_if(.., |it| it.calls_left == 0 || it.polls_left == 0).collect()
    }
}

impl Server {
    /// A call of `random`.
    pub(crate) fn call_random(&mut self, request: &Request) -> io::Result<()> {
        let arguments = &request.params["arguments"];
        let message = arguments["message"].as_str().unwrap_or_default();
        let owner = arguments["owner"].as_str().unwrap_or_default().to_owned();
        let mut hasher = DefaultHasher::new();
        (self.options.seed, message).hash(&mut hasher);
        let drawn = hasher.finish();
        self.random.owners.insert(owner);
        for waiting in &mut self.random.waiting {
            waiting.calls_left -= 1;
        }
        match drawn % 100 {
            0..50 => self.answer_random(request)?,
            50..75 => {
                let (request, calls_left) = (request.clone(), 1 + drawn / 100 % 4);
                self.random.waiting.push(Waiting { request, calls_left, polls_left: POLLS_MAX });
            }
            75..83 => {
                let error = RpcError::new(-32050, "the seed has decided so");
                self.respond_call(request, Err(error))?;
            }
            83..87 => {
                let other = Request { id: json!(drawn), ..request.clone() };
                self.answer_random(&other)?;
            }
            87..93 => {
                self.answer_random(request)?;
                self.answer_random(request)?;
            }
            93..99 => {
                let params = json!({"progressToken": drawn, "progress": 1});
                self.notify("notifications/progress", &params)?;
                self.notify("notifications/cancelled", &json!({"requestId": drawn}))?;
                self.answer_random(request)?;
            }
            _ => process::exit(3),
        }
        self.answer_due()
    }

    /// Answers the calls that have waited for long enough.
    pub(crate) fn poll_random(&mut self) -> io::Result<()> {
        for waiting in &mut self.random.waiting {
            waiting.polls_left -= 1;
        }
        self.answer_due()
    }

    fn answer_due(&mut self) -> io::Result<()> {
        self.random.take_due().iter().try_for_each(|call| self.answer_random(&call.request))
    }

    fn answer_random(&mut self, request: &Request) -> io::Result<()> {
        let message = &request.params["arguments"]["message"];
        let text = json!({"message": message, "owners": self.random.owners}).to_string();
        let content = json!([{"type": "text", "text": text}]);
        self.respond_call(request, Ok(json!({"content": content})))
    }
}
