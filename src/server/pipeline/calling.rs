//! Requests that a handler serves: answered at once by an inline one, or handed over to answer by
//! ticket.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use super::admission::Admitted;
use super::{Passage, Road};
use crate::base::slab::Key;
use crate::protocol::era::{ClientCapabilities, Method};
use crate::protocol::error::{Error, Kind};
use crate::protocol::inflight::Ticket;
use crate::protocol::json::Value;
use crate::protocol::params::{Complete, GetPrompt, ReadResource, Retry};
use crate::protocol::rpc::IdBuf;
use crate::server::calls::{Caller, Work};
use crate::server::desk::role::{Asking, Flag, Role, Turn};
use crate::server::desk::voice::{LocalVoice, Logs};
use crate::server::editor::Editor;
use crate::server::letter::{self, Letter, Reach, WorkerVoice};
use crate::server::party::Said;
use crate::server::questions::rounds::{Binding, Round};
use crate::server::questions::{Asker, Posed};
use crate::server::session::Peer;
use crate::service::{BlockingWork, Call, Features, Live, LocalWork, Reply, Worker};

/// What a client must have at least one of to be asked anything.
const ASKABLE: ClientCapabilities = ClientCapabilities::ELICITATION_FORM
    .with(ClientCapabilities::ELICITATION_URL)
    .with(ClientCapabilities::ROOTS)
    .with(ClientCapabilities::SAMPLING);

impl Road {
    /// A request that a handler serves.
    #[inline]
    pub(super) fn call(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
    ) -> Said {
        let turn = match self.try_task(passage, peer, admitted) {
            ControlFlow::Continue(turn) => turn,
            ControlFlow::Break(said) => return said,
        };
        let round = match self.begin_round(passage, peer, admitted) {
            Ok(round) => round,
            Err(error) => return self.refuse_admitted(peer, admitted, &error),
        };
        let handed_over = match self.begin(peer, admitted) {
            Reply::Ready { is_failed } => {
                self.counters.requests.tools_failed += u64::from(is_failed);
                return Said::Answer;
            }
            Reply::Failed(error) => Err(error),
            Reply::Local(work) => self.hand_to_shard(passage, peer, admitted, (work, round, turn)),
            Reply::Blocking(work) => self.hand_to_pool(passage, peer, admitted, work),
        };
        match handed_over {
            Ok(()) => Said::Nothing,
            Err(error) => self.refuse_admitted(peer, admitted, &error),
        }
    }

    /// Reads the params and goes as far as the catalog does at once.
    #[inline]
    fn begin(&self, peer: &mut Peer<'_>, admitted: &Admitted<'_>) -> Reply {
        let Admitted { id, revision, params, members, .. } = *admitted;
        let (catalog, out) = (&self.catalog, &mut *peer.outgoing);
        let begun = match admitted.method {
            Method::PromptsGet => {
                GetPrompt::read(params).map(|asked| catalog.make_prompt(revision, &asked, id, out))
            }
            Method::ResourcesRead => ReadResource::read(params)
                .map(|asked| catalog.read_resource(revision, &asked, id, out)),
            Method::CompletionComplete => {
                Complete::read(params).map(|asked| catalog.complete(revision, &asked, id, out))
            }
            _ => Call::from_params(revision, members)
                .map(|call| catalog.call(&call.from_client(admitted.capabilities), id, out)),
        };
        begun.unwrap_or_else(Reply::Failed)
    }

    /// What a modern request brings along from the rounds before it; most bring nothing. A state
    /// is taken for good here, so that it is looked at last of all that can be refused at once.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where the state does not belong to this request, is too old or was
    /// brought before.
    #[inline]
    fn begin_round(
        &mut self,
        passage: Passage,
        peer: &Peer<'_>,
        admitted: &Admitted<'_>,
    ) -> Result<Option<Box<Round>>, Error> {
        let may_retry =
            admitted.revision.is_modern() && admitted.method != Method::CompletionComplete;
        if !may_retry || !admitted.members.has_extras() {
            return Ok(None);
        }
        let retry = Retry::read(admitted.params)?;
        if retry.is_empty() {
            return Ok(None);
        }
        self.resume_round(passage, peer, admitted, retry)
    }

    fn resume_round(
        &mut self,
        passage: Passage,
        peer: &Peer<'_>,
        admitted: &Admitted<'_>,
        retry: Retry<'_>,
    ) -> Result<Option<Box<Round>>, Error> {
        let Some(state) = retry.request_state else {
            return Ok(Some(Box::new(Round::foreseen(retry.input_responses))));
        };
        self.refuse_busy(peer)?;
        let unix_ms = self.calendar.unix_ms(passage.now);
        let opened = self.rounds.open(state, bind(admitted), unix_ms);
        let mut round = opened.inspect_err(|_| self.counters.questions.states_refused += 1)?;
        self.counters.questions.unasked += round.take(retry.input_responses);
        Ok(Some(Box::new(round)))
    }

    /// Starts a local handler: a future on this shard.
    fn hand_to_shard(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
        (work, round, turn): (LocalWork, Option<Box<Round>>, Turn),
    ) -> Result<(), Error> {
        let flag = Rc::<Flag>::default();
        let local = Work::Local { task: None, flag: Rc::clone(&flag) };
        let ticket = self.enter(passage, peer, admitted, local)?;
        let asking = if admitted.revision.is_modern() {
            // Whoever can be asked nothing needs no name for its states.
            let is_askable = ASKABLE.without(admitted.capabilities) != ASKABLE;
            let binding = if is_askable { bind(admitted) } else { Binding::default() };
            let round = round.map(|round| *round).unwrap_or_default();
            Asking::Rounds(Rc::new(Posed::new(round, binding)))
        } else {
            Asking::Requests
        };
        let asker = Asker::Call(ticket);
        let client = (admitted.client(), flag);
        let role = Rc::new(Role::new(&self.desk, client, (asker, asking), turn));
        let voice = LocalVoice { role: Rc::clone(&role), logs: self.logs(admitted) };
        let task = self.host.spawn(Box::pin(role.run(work(Live::new(Rc::new(voice))))));
        self.calls.attach(ticket, task);
        Ok(())
    }

    /// Which log messages the handler of a request has to pass on.
    fn logs(&self, admitted: &Admitted<'_>) -> Logs {
        if !self.catalog.has(Features::LOGGING) {
            return Logs::Never;
        }
        match admitted.log_level {
            Some(level) => Logs::From(level),
            None if admitted.revision.is_modern() => Logs::Never,
            None => Logs::BySession,
        }
    }

    /// Starts a blocking handler: a closure on the thread pool.
    fn hand_to_pool(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
        work: BlockingWork,
    ) -> Result<(), Error> {
        let interest = Arc::new(());
        let watched = Arc::downgrade(&interest);
        let blocking = Work::Blocking { interest: Some(interest) };
        let ticket = self.enter(passage, peer, admitted, blocking)?;
        let (post, shard) = (self.post.clone(), self.shard);
        let (client, logs) = (admitted.client(), self.logs(admitted));
        let reach: Arc<dyn Reach> = Arc::<Editor>::clone(&self.editor);
        let job = Box::new(move || {
            let voice = WorkerVoice {
                post: post.clone(),
                shard,
                ticket,
                interest: watched,
                client,
                logs,
                reach,
            };
            let result = work(Worker::new(Arc::new(voice)));
            letter::deliver(&post, shard, Letter::Finished { ticket, result });
        });
        if self.blocking.run(job).is_ok() {
            self.counters.shard.blocking_calls += 1;
            return Ok(());
        }
        self.counters.shard.blocking_refused += 1;
        self.calls.end(ticket);
        peer.standing.owed -= 1;
        peer.session.in_flight.remove(admitted.id);
        Err(Error::new(
            Kind::Busy,
            "every thread for blocking tools is taken and the queue is full",
        ))
    }

    /// Enters a call that answers later, if there is a way on which it can.
    pub(super) fn enter(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
        work: Work,
    ) -> Result<Key, Error> {
        self.refuse_busy(peer)?;
        if !passage.outlet.may_wait() {
            self.counters.requests.refused_in_flight += 1;
            let message = "the session has no room for another stream; wait for an answer";
            return Err(Error::new(Kind::Busy, message));
        }
        let caller = Caller {
            outlet: passage.outlet,
            id: admitted.id.into(),
            revision: admitted.revision,
            progress_token: admitted.progress_token.map(IdBuf::from),
            catalog: Arc::clone(&self.catalog),
        };
        let deadline = passage.now.after(self.request_max);
        let ticket = self
            .calls
            .enter(caller, work, deadline)
            .ok_or_else(|| Error::new(Kind::Busy, "as many calls are in flight as may be"))?;
        let in_flight = &mut peer.session.in_flight;
        // Looked up when the request was admitted, and bounded above.
        in_flight.insert(admitted.id, Ticket(ticket.to_bits()), usize::MAX)?;
        peer.standing.owed += 1;
        Ok(ticket)
    }

    /// Refuses one call more than a connection may have in flight. As many as may be are no reason
    /// to stop reading: what comes next may be the answer that one of them waits for. Streams are
    /// in flight too, but wait for nothing and have a bound of their own.
    fn refuse_busy(&mut self, peer: &Peer<'_>) -> Result<(), Error> {
        if (peer.standing.owed as usize) < self.requests_in_flight_max {
            return Ok(());
        }
        self.counters.requests.refused_in_flight += 1;
        Err(Error::busy(self.requests_in_flight_max))
    }
}

/// The request that a state must belong to. Over the transports that there are everybody is the
/// same principal.
fn bind(admitted: &Admitted<'_>) -> Binding {
    let params = admitted.params.and_then(Value::as_object);
    let member = |key| params.and_then(|params| params.find(key));
    let key = if admitted.method == Method::ResourcesRead { "uri" } else { "name" };
    let subject = member(key).and_then(Value::as_str).unwrap_or_default();
    let arguments = member("arguments").filter(|arguments| !arguments.is_null());
    Binding::of(admitted.method.as_str(), subject, arguments, "")
}
