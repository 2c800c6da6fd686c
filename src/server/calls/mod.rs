//! The calls of a shard that are answered later, with their deadlines.
//!
//! Invariants: a call stays in the table until its handler has ended, also after cancellation; a
//! handler that waits for a thread ends with its cancellation; at most one peer waits for the
//! response of a call; the id of a removed call is never valid again.

mod completion;

use std::rc::Rc;
use std::sync::Arc;

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::{ALLOCATION_BYTES, HeapBytes};
use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;
use corelane_engine::executor::Task;
use corelane_engine::timer::TimerWheel;
use corelane_protocol::in_flight::{CallId, RequestsInFlight};
use corelane_protocol::jsonrpc::IdBuf;
use corelane_protocol::revision::Revision;
use corelane_transport::http::request_id::RequestIdBuf;

pub(super) use self::completion::{CallResult, CancelReason};
use super::blocking_jobs::WaitingJob;
use super::client_requests::OpenRequests;
use super::handlers::handler_state::CancellationToken;
use super::memory::handler_memory::HandlerCharge;
use super::overload::CallPermit;
use super::reply_to::ReplyTo;
use crate::server::audit::AuditRecord;
use crate::service::Catalog;
use crate::telemetry::trace::OpenSpan;

/// One call that is answered later.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) reply_to: ReplyTo,
    /// The JSON-RPC id of the response.
    pub(super) id: IdBuf,
    /// The protocol revision of the response.
    pub(super) revision: Revision,
    /// The catalog version that the call started with, and completes with.
    pub(super) catalog: Arc<Catalog>,
    pub(super) progress_token: Option<IdBuf>,
    /// The last progress sent; MCP requires later values to be greater.
    pub(super) progress: f64,
    /// The open requests to its client.
    pub(super) open_requests: Option<Box<OpenRequests>>,
    deadline: Instant,
    pub(super) work: HandlerWork,
    records: CallRecords,
    /// Whether the peer still waits for the response.
    is_awaited: bool,
    /// The timer fired while client requests were open; it is set again when the last one closes.
    timer_expired: bool,
}

heap_bytes!(
    Call { open_requests, records }
    inline { reply_to, revision, progress, deadline, is_awaited, timer_expired }
    // The charge of the work has the ids; the catalog is that of the shard.
    elsewhere { id, progress_token, work, catalog }
);

/// Where the end of a call is recorded.
#[derive(Debug)]
struct CallRecords {
    /// The permit of the circuit breaker of its tool.
    permit: Option<CallPermit>,
    /// What the audit log has of it, if its tool is marked.
    audited: Option<Box<AuditRecord>>,
    /// The id of its HTTP request.
    request_id: Option<RequestIdBuf>,
    /// Its span, if that is exported.
    span: Option<Box<OpenSpan>>,
}

heap_bytes!(
    CallRecords { request_id }
    counted { audited: Self::audit_bytes, span: Self::span_bytes }
    inline { permit }
);

impl CallRecords {
    fn audit_bytes(&self) -> usize {
        self.audited.as_ref().map_or(0, |it| ALLOCATION_BYTES + size_of_val(&**it))
    }

    fn span_bytes(&self) -> usize {
        self.span.as_ref().map_or(0, |it| ALLOCATION_BYTES + size_of_val(&**it))
    }
}

/// The running handler of a call.
#[derive(Debug)]
pub(super) enum HandlerWork {
    /// A future on this shard. Dropping the task drops the future.
    Local {
        task: Option<Task>,
        token: Rc<CancellationToken>,
        /// Bytes of its arguments and ids.
        argument_bytes: usize,
    },
    /// A closure on the thread pool.
    Blocking {
        /// `None` before it is queued and after its cancellation.
        handler: Option<BlockingHandler>,
        /// Bytes of its arguments and ids.
        argument_bytes: usize,
    },
    /// No handler: the response comes from a task, on this shard or another. With the charge for
    /// its ids.
    Remote(HandlerCharge),
}

impl HandlerWork {
    /// Requests cancellation.
    pub(super) fn cancel(&mut self) -> CancelledWork {
        match self {
            Self::Local { token, .. } => {
                token.cancel();
                CancelledWork::Runs
            }
            Self::Blocking { handler, .. } => {
                if handler.take().is_some_and(BlockingHandler::cancel) {
                    CancelledWork::NeverStarts
                } else {
                    CancelledWork::Runs
                }
            }
            Self::Remote(_) => CancelledWork::Ended,
        }
    }

    /// Returns the bytes of its arguments and ids.
    pub(super) const fn argument_bytes(&self) -> usize {
        match self {
            Self::Local { argument_bytes, .. } | Self::Blocking { argument_bytes, .. } => {
                *argument_bytes
            }
            Self::Remote(charge) => charge.bytes(),
        }
    }
}

/// What is left of the work of a call after its cancellation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CancelledWork {
    /// The handler runs, and ends by itself.
    Runs,
    /// Nothing runs here: the call waited for the result of work elsewhere.
    Ended,
    /// The handler had not started, and never will.
    NeverStarts,
}

/// A handler on the thread pool.
#[derive(Debug)]
pub(super) struct BlockingHandler {
    /// Dropped to request cancellation: the handler holds a `Weak` of it.
    pub(super) alive: Arc<()>,
    pub(super) job: WaitingJob,
}

impl BlockingHandler {
    /// Requests cancellation. Returns whether the handler had not started, and never will.
    fn cancel(self) -> bool {
        drop(self.alive);
        self.job.withdraw().is_some()
    }
}

/// What the table needs to know of a new call.
#[derive(Debug)]
pub(super) struct NewCall {
    pub(super) reply_to: ReplyTo,
    pub(super) id: IdBuf,
    pub(super) revision: Revision,
    pub(super) catalog: Arc<Catalog>,
    pub(super) progress_token: Option<IdBuf>,
    pub(super) permit: Option<CallPermit>,
    pub(super) request_id: Option<RequestIdBuf>,
}

/// All calls of a shard that are answered later.
#[derive(Debug)]
pub(super) struct CallTable {
    calls: Slab<Call>,
    timers: TimerWheel<Key>,
}

impl Call {
    /// Ends the span of a call that has become a task.
    pub(super) fn end_span(&mut self) {
        if let Some(span) = self.records.span.take() {
            span.end();
        }
    }

    /// Logs how the call has ended, if its tool is marked.
    pub(super) fn log_end(&mut self, outcome: &'static str) {
        if let Some(audited) = self.records.audited.take() {
            audited.log(outcome);
        }
    }
}

impl CallTable {
    /// Returns an empty table for at most `calls_max` calls.
    pub(super) fn new(calls_max: usize) -> Self {
        Self { calls: Slab::new(calls_max), timers: TimerWheel::new() }
    }

    /// Inserts a call with its deadline. Returns `None` if the table is full.
    pub(super) fn insert(
        &mut self,
        caller: NewCall,
        work: HandlerWork,
        deadline: Instant,
    ) -> Option<CallId> {
        let NewCall { reply_to, id, revision, catalog, progress_token, permit, request_id } =
            caller;
        let progress = f64::NEG_INFINITY;
        let call = Call {
            reply_to,
            id,
            revision,
            catalog,
            progress_token,
            progress,
            open_requests: None,
            deadline,
            work,
            records: CallRecords { permit, audited: None, request_id, span: None },
            is_awaited: true,
            timer_expired: false,
        };
        let call_id = self.calls.insert(call).ok()?;
        // Most calls end long before their deadline: drop stale timers first.
        self.timers.purge_stale(self.calls.len(), |call_id| self.calls.get(*call_id).is_some());
        self.timers.insert(deadline, call_id);
        Some(call_id)
    }

    /// Returns the bytes of the arguments of the calls in flight of a peer.
    pub(super) fn argument_bytes(&self, in_flight: &RequestsInFlight) -> usize {
        let calls = in_flight.calls().filter_map(|call_id| self.calls.get(call_id));
        calls.map(|call| call.work.argument_bytes()).sum()
    }

    /// Returns the bytes of the arguments of all calls.
    pub(super) fn all_argument_bytes(&self) -> usize {
        self.calls.iter().map(|(_, call)| call.work.argument_bytes()).sum()
    }

    /// Returns the bytes of the table without what is charged for its calls. Cost: a pass over all.
    pub(super) fn place_bytes(&self) -> usize {
        let calls: usize = self.calls.iter().map(|(_, call)| call.heap_bytes()).sum();
        self.calls.allocated_bytes() + self.timers.allocated_bytes() + calls
    }

    /// Stores the queued job of a blocking handler.
    pub(super) fn attach_job(&mut self, call_id: CallId, job: BlockingHandler) {
        if let Some(Call { work: HandlerWork::Blocking { handler, .. }, .. }) =
            self.calls.get_mut(call_id)
        {
            *handler = Some(job);
        }
    }

    /// Stores the task of a local handler, and what is charged for it.
    pub(super) fn attach_task(&mut self, call_id: CallId, running: Task, charged_bytes: usize) {
        if let Some(Call { work: HandlerWork::Local { task, argument_bytes, .. }, .. }) =
            self.calls.get_mut(call_id)
        {
            (*task, *argument_bytes) = (Some(running), charged_bytes);
        }
    }

    /// Has the end of a call logged.
    pub(super) fn attach_audit(&mut self, call_id: CallId, audited: Box<AuditRecord>) {
        if let Some(call) = self.find_awaited(call_id) {
            call.records.audited = Some(audited);
        }
    }

    /// Has the span of a call end with it.
    pub(super) fn attach_span(&mut self, call_id: CallId, span: OpenSpan) {
        if let Some(call) = self.find_awaited(call_id) {
            call.records.span = Some(Box::new(span));
        }
    }

    /// Takes the span of a call that ends.
    fn take_span(&mut self, call_id: CallId) -> Option<Box<OpenSpan>> {
        self.find_awaited(call_id)?.records.span.take()
    }

    /// Logs the end of a call, if its tool is marked.
    fn log_end(&mut self, call_id: CallId, outcome: &'static str) {
        let call = self.find_awaited(call_id);
        if let Some(audited) = call.and_then(|call| call.records.audited.take()) {
            audited.log(outcome);
        }
    }

    /// Returns the id of the HTTP request of a call.
    pub(super) fn request_id(&self, call_id: CallId) -> Option<&str> {
        let call = self.calls.get(call_id)?;
        call.records.request_id.as_ref().map(RequestIdBuf::as_str)
    }

    /// Returns the call while its response is awaited.
    pub(super) fn find_awaited(&mut self, call_id: CallId) -> Option<&mut Call> {
        self.calls.get_mut(call_id).filter(|call| call.is_awaited)
    }

    /// Removes the call of an ended handler. Returns `None` if no response is awaited.
    pub(super) fn remove(&mut self, call_id: CallId) -> Option<Call> {
        self.calls.remove(call_id).filter(|call| call.is_awaited)
    }

    /// Cancels a call. Its slot stays taken until a running handler ends. Returns `false` if it was
    /// cancelled before.
    pub(super) fn cancel(&mut self, call_id: CallId) -> bool {
        self.cancel_work(call_id).is_some()
    }

    /// Like [`Self::cancel`]; returns what is left of the work, or `None` if the call was cancelled
    /// before.
    fn cancel_work(&mut self, call_id: CallId) -> Option<CancelledWork> {
        let call = self.calls.get_mut(call_id).filter(|call| call.is_awaited)?;
        call.is_awaited = false;
        call.records.permit = None;
        let left = call.work.cancel();
        if left != CancelledWork::Runs {
            self.calls.remove(call_id);
        }
        Some(left)
    }

    /// Registers client request `number`: the deadline of the call is suspended while any is open.
    /// Returns `false` if the call is not awaited or has `open_max` open requests.
    pub(super) fn add_client_request(
        &mut self,
        call_id: CallId,
        number: u64,
        open_max: usize,
        now: Instant,
    ) -> bool {
        let Some(call) = self.find_awaited(call_id) else { return false };
        call.open_requests.get_or_insert_default().add(number, open_max, now)
    }

    /// Closes client request `number`; after the last one the deadline runs again.
    pub(super) fn finish_client_request(&mut self, call_id: CallId, number: u64, now: Instant) {
        let Some(call) = self.calls.get_mut(call_id) else { return };
        let Some(open_requests) = &mut call.open_requests else { return };
        if let Some(suspended) = open_requests.remove(number, now) {
            call.deadline = call.deadline.after(suspended);
            // An earlier timer reschedules itself when it fires: there is at most one.
            if std::mem::take(&mut call.timer_expired) {
                self.timers.insert(call.deadline, call_id);
            }
        }
    }

    /// Records an accepted URL elicitation.
    pub(super) fn record_accepted_url(
        &mut self,
        call_id: CallId,
        elicitation_id: Option<Box<str>>,
    ) {
        if let Some(call) = self.find_awaited(call_id) {
            call.open_requests.get_or_insert_default().record_accepted_url(elicitation_id);
        }
    }

    pub(super) fn open_requests(&self, call_id: CallId) -> &[u64] {
        let open_requests = self.calls.get(call_id).and_then(|call| call.open_requests.as_ref());
        open_requests.map_or(&[], |open_requests| open_requests.numbers())
    }

    pub(super) fn take_open_requests(&mut self, call_id: CallId) -> Vec<u64> {
        let open_requests =
            self.calls.get_mut(call_id).and_then(|call| call.open_requests.as_mut());
        open_requests.map(|open_requests| open_requests.take()).unwrap_or_default()
    }

    /// Takes one call whose deadline has passed and whose response is awaited.
    pub(super) fn pop_overdue(&mut self, now: Instant) -> Option<CallId> {
        loop {
            let call_id = self.timers.pop_expired(now)?;
            let Some(call) = self.find_awaited(call_id) else { continue };
            if call.open_requests.as_ref().is_some_and(|open_requests| open_requests.is_open()) {
                // Suspended: the timer is set again when the last client request closes.
                call.timer_expired = true;
                continue;
            }
            let deadline = call.deadline;
            if deadline <= now {
                return Some(call_id);
            }
            self.timers.insert(deadline, call_id);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Number of running handlers, cancelled ones included.
    pub(super) const fn len(&self) -> usize {
        self.calls.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use corelane_protocol::jsonrpc::Id;
    use corelane_protocol::model::Implementation;

    use super::*;
    use crate::server::reply_to::PeerId;

    fn at(milliseconds: u64) -> Instant {
        Instant::from_milliseconds(milliseconds)
    }

    /// Returns a table with one call that has a deadline of 100 ms.
    fn table_with_call() -> (CallTable, Key) {
        let mut calls = CallTable::new(4);
        let offered = Catalog::builder(Implementation::new("calls", "1")).build().unwrap();
        let caller = NewCall {
            catalog: Arc::new(offered),
            reply_to: ReplyTo::standalone(PeerId::Connection(Key::from_bits(1))),
            id: Id::Signed(1).into(),
            revision: Revision::LATEST_LEGACY,
            progress_token: None,
            permit: None,
            request_id: None,
        };
        let work = HandlerWork::Blocking { handler: None, argument_bytes: 0 };
        let deadline = Instant::ORIGIN.after(Duration::from_millis(100));
        let call_id = calls.insert(caller, work, deadline).expect("the table is empty");
        (calls, call_id)
    }

    #[test]
    fn open_client_requests_suspend_call_deadline() {
        let (mut calls, call_id) = table_with_call();
        assert!(calls.add_client_request(call_id, 1, 2, at(10)));
        assert!(calls.add_client_request(call_id, 2, 2, at(20)));
        assert!(
            !calls.add_client_request(call_id, 3, 2, at(20)),
            "two requests are open, the limit"
        );
        calls.finish_client_request(call_id, 1, at(50));
        assert_eq!(calls.pop_overdue(at(500)), None);
        calls.finish_client_request(call_id, 2, at(510));
        // Suspended for 500 ms.
        assert_eq!(calls.pop_overdue(at(599)), None);
        assert_eq!(calls.pop_overdue(at(600)), Some(call_id));
    }

    #[test]
    fn stale_timer_does_not_expire_call_early() {
        let (mut calls, call_id) = table_with_call();
        assert!(calls.add_client_request(call_id, 1, 2, at(10)));
        calls.finish_client_request(call_id, 1, at(40));
        assert_eq!(calls.pop_overdue(at(100)), None);
        assert_eq!(calls.pop_overdue(at(130)), Some(call_id));
    }

    #[test]
    fn repeated_client_requests_keep_one_timer() {
        let (mut calls, call_id) = table_with_call();
        for number in 0..1_000 {
            assert!(calls.add_client_request(call_id, number, 2, at(10)));
            calls.finish_client_request(call_id, number, at(11));
        }
        assert_eq!(calls.timers.len(), 1);
        // Suspended for a second in total; the next timer expiry finds a request open and removes
        // the timer, the last response sets it again.
        assert!(calls.add_client_request(call_id, 1_000, 2, at(20)));
        assert_eq!(calls.pop_overdue(at(500)), None);
        assert_eq!(calls.timers.len(), 0);
        calls.finish_client_request(call_id, 1_000, at(500));
        assert_eq!(calls.timers.len(), 1);
        assert_eq!(calls.pop_overdue(at(1_579)), None);
        assert_eq!(calls.pop_overdue(at(1_580)), Some(call_id));
    }

    #[test]
    fn cancelled_call_sends_no_client_requests() {
        let (mut calls, call_id) = table_with_call();
        assert!(calls.add_client_request(call_id, 1, 2, at(10)));
        assert_eq!(calls.take_open_requests(call_id), [1]);
        assert!(calls.cancel(call_id));
        assert!(!calls.cancel(call_id));
        assert!(!calls.add_client_request(call_id, 2, 2, at(20)));
        calls.finish_client_request(call_id, 1, at(30));
        assert_eq!(calls.pop_overdue(at(1_000)), None);
        assert_eq!(calls.len(), 1, "until its handler ends");
    }
}
