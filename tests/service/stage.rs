//! A stage for tools: a caller in front, a stand-in for the server behind.
//!
//! It runs every kind of handler to its end on this thread. Time is a number: a sleep ends at once
//! and is added up.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use corelane::protocol::era::{ClientCapabilities, LogLevel};
use corelane::protocol::error::Error;
use corelane::protocol::json::{Document, Limits, PADDING_BYTES, Parser};
use corelane::protocol::message::{InputRequest, InputResponse};
use corelane::protocol::params::{Complete, GetPrompt, ReadResource};
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::Id;
use corelane::service::{
    AskError, Call, Catalog, CatalogError, Client, Edit, HandlerError, HostFuture, Live, LiveHost,
    Reply, Worker, WorkerHost, Yield,
};
use serde_json::{Value, json};

use crate::judge::judge;

/// The id of every request.
const ID: Id<'static> = Id::Signed(7);

/// Parses `text` and shows the document to `look`.
pub(crate) fn with_document<T>(text: &str, look: impl FnOnce(&Document<'_>) -> T) -> T {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() + PADDING_BYTES, 0);
    let mut parser = Parser::new(Limits::default());
    look(&parser.parse(&mut bytes, text.len()).expect("the text of a test is JSON"))
}

/// Sends `params` to `tools/call` and waits for the result.
pub(crate) fn call(catalog: &Catalog, revision: Revision, params: &str) -> Result<Value, Error> {
    call_watched(catalog, revision, params, Rc::new(Stage::default()), Arc::new(Pool::default()))
}

/// [`call`] with the stand-ins in the hands of the test.
pub(crate) fn call_watched(
    catalog: &Catalog,
    revision: Revision,
    params: &str,
    stage: Rc<Stage>,
    pool: Arc<Pool>,
) -> Result<Value, Error> {
    let capabilities = stage.capabilities.get();
    let begin = |document: &Document<'_>, out: &mut Vec<u8>| {
        let call = Call::read(revision, Some(document.root()))?.from_client(capabilities);
        Ok(catalog.call(&call, ID, out))
    };
    carry_out(catalog, revision, "tools/call", params, begin, (stage, pool))
}

/// Sends `params` to `prompts/get` and waits for the result.
pub(crate) fn prompt(catalog: &Catalog, revision: Revision, params: &str) -> Result<Value, Error> {
    let begin = |document: &Document<'_>, out: &mut Vec<u8>| {
        let asked = GetPrompt::read(Some(document.root()))?;
        Ok(catalog.make_prompt(revision, &asked, ID, out))
    };
    carry_out(catalog, revision, "prompts/get", params, begin, Default::default())
}

/// Sends `params` to `resources/read` and waits for the result.
pub(crate) fn read(catalog: &Catalog, revision: Revision, params: &str) -> Result<Value, Error> {
    let begin = |document: &Document<'_>, out: &mut Vec<u8>| {
        let asked = ReadResource::read(Some(document.root()))?;
        Ok(catalog.read_resource(revision, &asked, ID, out))
    };
    carry_out(catalog, revision, "resources/read", params, begin, Default::default())
}

/// Sends `params` to `completion/complete`.
pub(crate) fn complete(
    catalog: &Catalog,
    revision: Revision,
    params: &str,
) -> Result<Value, Error> {
    let begin = |document: &Document<'_>, out: &mut Vec<u8>| {
        let asked = Complete::read(Some(document.root()))?;
        Ok(catalog.complete(revision, &asked, ID, out))
    };
    carry_out(catalog, revision, "completion/complete", params, begin, Default::default())
}

/// One page of a list as the result of `method`, which the revision must know.
pub(crate) fn listed(revision: Revision, method: &str, page: Result<&Bytes, Error>) -> Value {
    let page = page.expect("the cursor was issued");
    let result: Value = serde_json::from_slice(page).expect("a page is one JSON text");
    let message = json!({ "jsonrpc": "2.0", "id": 7, "result": result.clone() });
    judge(revision.as_str(), &message, Some(method)).expect("the revision knows it");
    result
}

/// Begins a request and sees it to its end, whatever kind of handler serves it.
fn carry_out(
    catalog: &Catalog,
    revision: Revision,
    method: &str,
    params: &str,
    begin: impl FnOnce(&Document<'_>, &mut Vec<u8>) -> Result<Reply, Error>,
    (stage, pool): (Rc<Stage>, Arc<Pool>),
) -> Result<Value, Error> {
    let mut out = b"before".to_vec();
    let result = match with_document(params, |document| begin(document, &mut out))? {
        Reply::Ready { is_failed } => {
            let response = response(revision, method, &out);
            assert_eq!(response.get("isError").is_some(), is_failed);
            return Ok(response);
        }
        Reply::Failed(error) => {
            assert_eq!(out, b"before", "a request that failed leaves nothing behind");
            return Err(error);
        }
        Reply::Local(work) => finish(work(Live::new(stage))),
        Reply::Blocking(work) => work(Worker::new(pool)),
    };
    assert_eq!(out, b"before", "a request that is not ready has said nothing");
    settle_as(catalog, revision, method, result)
}

/// Has the catalog write the response for what the handler of a tool returned.
pub(crate) fn settle(
    catalog: &Catalog,
    revision: Revision,
    result: Result<Yield, HandlerError>,
) -> Result<Value, Error> {
    settle_as(catalog, revision, "tools/call", result)
}

fn settle_as(
    catalog: &Catalog,
    revision: Revision,
    method: &str,
    result: Result<Yield, HandlerError>,
) -> Result<Value, Error> {
    let mut out = b"before".to_vec();
    let settled = catalog.settle(revision, ID, result, &mut out);
    if settled.is_err() {
        assert_eq!(out, b"before");
    }
    settled.map(|is_failed| {
        let response = response(revision, method, &out);
        assert_eq!(response.get("isError").is_some(), is_failed);
        response
    })
}

/// The result of the one response in `out`, which its revision must know.
fn response(revision: Revision, method: &str, out: &[u8]) -> Value {
    let text = out.strip_prefix(b"before").expect("what was in the buffer stays");
    let mut response: Value = serde_json::from_slice(text).expect("a response is one JSON text");
    assert_eq!(response["id"], 7);
    judge(revision.as_str(), &response, Some(method)).expect("the revision knows it");
    response["result"].take()
}

/// Polls `future` until it is done. Nothing on this stage wakes anybody: everything is ready.
fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..10_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
    panic!("the handler waits for something that never comes");
}

/// Stands in for a shard.
#[derive(Default)]
pub(crate) struct Stage {
    /// Every word of progress.
    pub(crate) progress: RefCell<Vec<(f64, Option<f64>)>>,
    /// How long the handler has slept in all.
    pub(crate) slept: Cell<Duration>,
    /// After how much progress the request is cancelled.
    pub(crate) cancel_after: Cell<Option<usize>>,
    /// What the client declared.
    pub(crate) capabilities: Cell<ClientCapabilities>,
    /// What the client answers, by the key of the question.
    pub(crate) answers: RefCell<BTreeMap<String, Value>>,
    /// Every log message: level and data.
    pub(crate) logged: RefCell<Vec<(LogLevel, Value)>>,
}

impl LiveHost for Stage {
    fn progress(&self, progress: f64, total: Option<f64>, _: Option<&str>) {
        self.progress.borrow_mut().push((progress, total));
    }

    fn is_cancelled(&self) -> bool {
        self.cancel_after.get().is_some_and(|count| self.progress.borrow().len() >= count)
    }

    fn cancelled(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        if self.is_cancelled() { Box::pin(ready(())) } else { Box::pin(pending()) }
    }

    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        self.slept.set(self.slept.get() + span);
        Box::pin(ready(()))
    }

    fn client(&self) -> Client {
        Client { revision: Revision::LATEST, capabilities: self.capabilities.get() }
    }

    fn ask(&self, key: &str, request: InputRequest) -> HostFuture<Result<InputResponse, AskError>> {
        let response = match self.answers.borrow().get(key) {
            Some(answer) => request.read_response(answer).map_err(AskError::Malformed),
            None => Err(AskError::TimedOut),
        };
        Box::pin(ready(response))
    }

    fn close_stream(&self) {}

    fn begin_task(&self) -> HostFuture<Result<(), HandlerError>> {
        Box::pin(ready(Ok(())))
    }

    fn log(&self, level: LogLevel, _: Option<&str>, data: Value) {
        self.logged.borrow_mut().push((level, data));
    }

    fn updated(&self, _: &str) {}

    fn change(&self, _: Edit) -> HostFuture<Result<(), CatalogError>> {
        Box::pin(ready(Err(CatalogError::Fixed)))
    }
}

/// Stands in for the thread pool.
#[derive(Default)]
pub(crate) struct Pool {
    /// How often progress was told.
    pub(crate) progress_count: AtomicUsize,
    /// Whether the request was cancelled before it ran.
    pub(crate) is_cancelled: bool,
}

impl WorkerHost for Pool {
    fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {
        self.progress_count.fetch_add(1, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    fn client(&self) -> Client {
        Client { revision: Revision::LATEST, capabilities: ClientCapabilities::NONE }
    }

    fn log(&self, _: LogLevel, _: Option<&str>, _: Value) {}

    fn updated(&self, _: &str) {}

    fn change(&self, _: Edit) -> Result<(), CatalogError> {
        Err(CatalogError::Fixed)
    }
}
