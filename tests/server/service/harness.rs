//! Harness that sends requests to a catalog without a server.
//!
//! It runs handlers of every kind to completion on the current thread. Timers fire immediately; the
//! requested durations are added up.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use corelane::internal::{
    BlockingHost, CatalogUpdate, DetachedRequest, Dispatch, HandlerOutput, HostFuture, RequestHost,
};
use corelane::{
    BlockingContext, CallToolRequest, Catalog, CatalogError, ClientInfo, ClientRequestError,
    HandlerError, RequestContext, RequestInfo,
};
use corelane_protocol::eras::{ClientCapabilities, LoggingLevel};
use corelane_protocol::error::Error;
use corelane_protocol::json::{Document, PADDING_BYTES, PaddedText, ParseLimits, Parser};
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::{InputRequest, InputResponse};
use corelane_protocol::params::{
    CompleteRequestParams, GetPromptRequestParams, ReadResourceRequestParams,
};
use corelane_protocol::revision::Revision;
use corelane_test_support::mcp_schema::check_message;
use serde_json::{Value, json};

/// Request id of every request.
const ID: Id<'static> = Id::Signed(7);

/// Parses `text` and calls `visit` with the document.
pub(crate) fn with_document<T>(text: &str, visit: impl FnOnce(&Document<'_>) -> T) -> T {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() + PADDING_BYTES, 0);
    let mut parser = Parser::new(ParseLimits::default());
    visit(&parser.parse(PaddedText::new(&mut bytes, text.len())).expect("the test's text is JSON"))
}

/// Dispatches `tools/call` with `params` and returns the result.
pub(crate) fn call_tool(
    catalog: &Catalog,
    revision: Revision,
    params: &str,
) -> Result<Value, Error> {
    call_tool_with_hosts(
        catalog,
        revision,
        params,
        Rc::new(TestRequestHost::default()),
        Arc::new(TestBlockingHost::default()),
    )
}

/// Like [`call_tool`], with the given hosts.
pub(crate) fn call_tool_with_hosts(
    catalog: &Catalog,
    revision: Revision,
    params: &str,
    host: Rc<TestRequestHost>,
    pool: Arc<TestBlockingHost>,
) -> Result<Value, Error> {
    let capabilities = host.capabilities.get();
    let dispatch = |document: &Document<'_>, out: &mut Vec<u8>| {
        let call = CallToolRequest::read(revision, Some(document.root()))?
            .with_client_capabilities(capabilities);
        Ok(catalog.call_tool(&call, ID, out))
    };
    run_request(catalog, revision, "tools/call", params, dispatch, host, pool)
}

/// Dispatches `prompts/get` with `params` and returns the result.
pub(crate) fn get_prompt(
    catalog: &Catalog,
    revision: Revision,
    params: &str,
) -> Result<Value, Error> {
    let dispatch = |document: &Document<'_>, out: &mut Vec<u8>| {
        let request = GetPromptRequestParams::read(Some(document.root()))?;
        Ok(catalog.get_prompt(&request, &detached(revision), ID, out))
    };
    run_request(catalog, revision, "prompts/get", params, dispatch, Rc::default(), Arc::default())
}

/// Dispatches `resources/read` with `params` and returns the result.
pub(crate) fn read_resource(
    catalog: &Catalog,
    revision: Revision,
    params: &str,
) -> Result<Value, Error> {
    let dispatch = |document: &Document<'_>, out: &mut Vec<u8>| {
        let request = ReadResourceRequestParams::read(Some(document.root()))?;
        Ok(catalog.read_resource(&request, &detached(revision), ID, out))
    };
    run_request(
        catalog,
        revision,
        "resources/read",
        params,
        dispatch,
        Rc::default(),
        Arc::default(),
    )
}

/// Dispatches `completion/complete` with `params` and returns the result.
pub(crate) fn complete(
    catalog: &Catalog,
    revision: Revision,
    params: &str,
) -> Result<Value, Error> {
    let dispatch = |document: &Document<'_>, out: &mut Vec<u8>| {
        let request = CompleteRequestParams::read(Some(document.root()))?;
        Ok(catalog.complete(&request, &detached(revision), &|_| true, ID, out))
    };
    run_request(
        catalog,
        revision,
        "completion/complete",
        params,
        dispatch,
        Rc::default(),
        Arc::default(),
    )
}

/// A request of a client without capabilities, and without a connection.
fn detached(revision: Revision) -> DetachedRequest {
    DetachedRequest { client: ClientInfo { revision, capabilities: ClientCapabilities::NONE } }
}

/// A page as the result of `method`, validated against the schema of the revision.
pub(crate) fn parse_page(revision: Revision, method: &str, page: Result<&Bytes, Error>) -> Value {
    let page = page.expect("the cursor was issued");
    let result: Value = serde_json::from_slice(page).expect("a page is JSON");
    let message = json!({ "jsonrpc": "2.0", "id": 7, "result": result.clone() });
    check_message(revision.as_str(), &message, Some(method))
        .expect("the result conforms to the schema");
    result
}

/// Number of every failed request.
pub(crate) const REQUEST_NUMBER: u64 = 42;

/// Dispatches a request and completes it, whatever kind of handler serves it.
fn run_request(
    catalog: &Catalog,
    revision: Revision,
    method: &str,
    params: &str,
    dispatch: impl FnOnce(&Document<'_>, &mut Vec<u8>) -> Result<Dispatch, Error>,
    host: Rc<TestRequestHost>,
    pool: Arc<TestBlockingHost>,
) -> Result<Value, Error> {
    let mut out = b"before".to_vec();
    let result = match with_document(params, |document| dispatch(document, &mut out))? {
        Dispatch::Ready { is_error } => {
            let response = parse_response(revision, method, &out);
            assert_eq!(response.get("isError").is_some(), is_error);
            return Ok(response);
        }
        Dispatch::Failed(error) => {
            assert_eq!(out, b"before", "a failed request leaves the buffer unchanged");
            return Err(error);
        }
        Dispatch::Internal(error) => Err(HandlerError::Internal(error)),
        Dispatch::Local(work) => poll_to_completion(work(RequestContext::new(host))),
        Dispatch::Tokio(_) => panic!("there is no runtime"),
        Dispatch::Blocking(work) => (work.run)(BlockingContext::new(pool)),
    };
    assert_eq!(out, b"before", "pending work leaves the buffer unchanged");
    // The server does the same after it has logged the error.
    let result = result.map_err(|error| match error {
        HandlerError::Internal(error) => error.to_response(REQUEST_NUMBER, false),
        error => error,
    });
    write_output(catalog, revision, method, result)
}

/// Writes the response for the output of a tool handler and returns the result.
pub(crate) fn write_tool_output(
    catalog: &Catalog,
    revision: Revision,
    result: Result<HandlerOutput, HandlerError>,
) -> Result<Value, Error> {
    write_output(catalog, revision, "tools/call", result)
}

fn write_output(
    catalog: &Catalog,
    revision: Revision,
    method: &str,
    result: Result<HandlerOutput, HandlerError>,
) -> Result<Value, Error> {
    let mut out = b"before".to_vec();
    let written = catalog.write_output(revision, ID, result, &mut out);
    if written.is_err() {
        assert_eq!(out, b"before");
    }
    written.map(|is_error| {
        let response = parse_response(revision, method, &out);
        assert_eq!(response.get("isError").is_some(), is_error);
        response
    })
}

/// The result of the only response in `out`, validated against the schema of the revision.
fn parse_response(revision: Revision, method: &str, out: &[u8]) -> Value {
    let text = out.strip_prefix(b"before").expect("earlier content is unchanged");
    let mut response: Value = serde_json::from_slice(text).expect("a response is JSON");
    assert_eq!(response["id"], 7);
    check_message(revision.as_str(), &response, Some(method))
        .expect("the response conforms to the schema");
    response["result"].take()
}

/// Polls `future` until it completes, without wake-ups: all futures of the hosts are ready.
fn poll_to_completion<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..10_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
    panic!("the handler waits for a future that never completes");
}

/// Host of local handlers that records what they do.
#[derive(Default)]
pub(crate) struct TestRequestHost {
    /// Progress and total of every progress notification.
    pub(crate) progress: RefCell<Vec<(f64, Option<f64>)>>,
    /// Sum of all sleeps.
    pub(crate) slept: Cell<Duration>,
    /// Number of progress notifications after which the request is cancelled.
    pub(crate) cancel_after: Cell<Option<usize>>,
    /// Declared capabilities of the client.
    pub(crate) capabilities: Cell<ClientCapabilities>,
    /// Responses of the client, by key of the input request.
    pub(crate) responses: RefCell<BTreeMap<String, Value>>,
    /// Level and data of every log message.
    pub(crate) logged: RefCell<Vec<(LoggingLevel, Value)>>,
    pub(crate) request: OnceCell<Arc<RequestInfo>>,
}

impl RequestHost for TestRequestHost {
    fn progress(&self, progress: f64, total: Option<f64>, _: Option<&str>) {
        self.progress.borrow_mut().push((progress, total));
    }

    fn is_cancelled(&self) -> bool {
        self.cancel_after.get().is_some_and(|count| self.progress.borrow().len() >= count)
    }

    fn cancelled(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        if self.is_cancelled() { Box::pin(ready(())) } else { Box::pin(pending()) }
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        self.slept.set(self.slept.get() + duration);
        Box::pin(ready(()))
    }

    fn request(&self) -> &Arc<RequestInfo> {
        self.request.get_or_init(|| {
            let capabilities = self.capabilities.get();
            let client = ClientInfo { revision: Revision::LATEST, capabilities };
            RequestInfo::detached(client).into()
        })
    }

    fn shard_state(&self) -> &dyn Any {
        &()
    }

    fn request_input(
        &self,
        key: &str,
        request: InputRequest,
    ) -> HostFuture<Result<InputResponse, ClientRequestError>> {
        let response = match self.responses.borrow().get(key) {
            Some(response) => {
                request.read_response(response).map_err(ClientRequestError::InvalidResponse)
            }
            None => Err(ClientRequestError::Timeout),
        };
        Box::pin(ready(response))
    }

    fn close_sse_stream(&self) {}

    fn begin_task(&self) -> HostFuture<Result<(), HandlerError>> {
        Box::pin(ready(Ok(())))
    }

    fn log(&self, level: LoggingLevel, _: Option<&str>, data: Value) {
        self.logged.borrow_mut().push((level, data));
    }

    fn notify_resource_updated(&self, _: &str) {}

    fn update_catalog(&self, _: CatalogUpdate) -> HostFuture<Result<(), CatalogError>> {
        Box::pin(ready(Err(CatalogError::ReadOnly)))
    }
}

/// Host of blocking handlers that counts progress notifications.
#[derive(Default)]
pub(crate) struct TestBlockingHost {
    /// Number of progress notifications.
    pub(crate) progress_count: AtomicUsize,
    /// Whether the request is cancelled from the start.
    pub(crate) is_cancelled: bool,
    pub(crate) request: OnceLock<RequestInfo>,
}

impl BlockingHost for TestBlockingHost {
    fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {
        self.progress_count.fetch_add(1, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    fn request(&self) -> &RequestInfo {
        self.request.get_or_init(|| {
            let capabilities = ClientCapabilities::NONE;
            RequestInfo::detached(ClientInfo { revision: Revision::LATEST, capabilities })
        })
    }

    fn log(&self, _: LoggingLevel, _: Option<&str>, _: Value) {}

    fn notify_resource_updated(&self, _: &str) {}

    fn update_catalog(&self, _: CatalogUpdate) -> Result<(), CatalogError> {
        Err(CatalogError::ReadOnly)
    }
}
