//! A stage for tools: a caller in front, a stand-in for the server behind.
//!
//! It runs every kind of handler to its end on this thread. Time is a number: a sleep ends at once
//! and is added up.

use std::cell::{Cell, RefCell};
use std::future::{pending, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use corelane::protocol::era::{ClientCapabilities, LogLevel};
use corelane::protocol::error::Error;
use corelane::protocol::json::{Document, Limits, PADDING_BYTES, Parser};
use corelane::protocol::message::{InputRequest, InputResponse};
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::Id;
use corelane::service::{
    AskError, Call, Catalog, CatalogError, Client, Edit, HandlerError, HostFuture, Live, LiveHost,
    Reply, Worker, WorkerHost, Yield,
};
use serde_json::Value;

use crate::judge::judge;

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
    let mut out = b"before".to_vec();
    let id = Id::Signed(7);
    let reply = with_document(params, |document| {
        let call = Call::read(revision, Some(document.root()))?;
        Ok::<_, Error>(catalog.call(&call, id, &mut out))
    })?;
    let result = match reply {
        Reply::Ready { is_failed } => {
            let response = response(revision, &out);
            assert_eq!(response.get("isError").is_some(), is_failed);
            return Ok(response);
        }
        Reply::Failed(error) => {
            assert_eq!(out, b"before", "a call that failed leaves nothing behind");
            return Err(error);
        }
        Reply::Local(work) => finish(work(Live::new(stage))),
        Reply::Blocking(work) => work(Worker::new(pool)),
    };
    assert_eq!(out, b"before", "a call that is not ready has said nothing");
    settle(catalog, revision, result)
}

/// Has the catalog write the response for what a handler returned.
pub(crate) fn settle(
    catalog: &Catalog,
    revision: Revision,
    result: Result<Yield, HandlerError>,
) -> Result<Value, Error> {
    let mut out = b"before".to_vec();
    let settled = catalog.settle(revision, Id::Signed(7), result, &mut out);
    if settled.is_err() {
        assert_eq!(out, b"before");
    }
    settled.map(|is_failed| {
        let response = response(revision, &out);
        assert_eq!(response.get("isError").is_some(), is_failed);
        response
    })
}

/// The result of the one response in `out`, which its revision must know.
fn response(revision: Revision, out: &[u8]) -> Value {
    let text = out.strip_prefix(b"before").expect("what was in the buffer stays");
    let mut response: Value = serde_json::from_slice(text).expect("a response is one JSON text");
    assert_eq!(response["id"], 7);
    judge(revision.as_str(), &response, Some("tools/call")).expect("the revision knows it");
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
        client()
    }

    fn ask(&self, _: &str, request: InputRequest) -> HostFuture<Result<InputResponse, AskError>> {
        Box::pin(ready(Err(AskError::Unsupported(request.needs()))))
    }

    fn log(&self, _: LogLevel, _: Option<&str>, _: Value) {}

    fn updated(&self, _: &str) {}

    fn change(&self, _: Edit) -> HostFuture<Result<(), CatalogError>> {
        Box::pin(ready(Err(CatalogError::Fixed)))
    }
}

/// A client that can do nothing.
fn client() -> Client {
    Client { revision: Revision::LATEST, capabilities: ClientCapabilities::NONE }
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
        client()
    }

    fn log(&self, _: LogLevel, _: Option<&str>, _: Value) {}

    fn updated(&self, _: &str) {}

    fn change(&self, _: Edit) -> Result<(), CatalogError> {
        Err(CatalogError::Fixed)
    }
}
