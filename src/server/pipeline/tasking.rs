//! Calls that become tasks: answered with the name of a task, run behind it. Most do so at once;
//! those whose tool asks first ([`crate::service::ToolBuilder::asks_before_task`]) when their
//! handler says so.
//!
//! What it keeps true: a task stands in the table before its name is written. An inline handler
//! never runs as a task of its own: a modern caller has its result at once, and a caller of
//! 2025-11-25 who insists on a task gets one whose result is there already.
//!
//! Source: 2025-11-25, basic/utilities/tasks, "Creating Tasks"; Tasks extension 2026-07-28, "Task
//! Creation".

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::admission::Admitted;
use super::task_voice::TaskWorkerVoice;
use super::{Passage, Road};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::protocol::era::{ClientCapabilities, Method};
use crate::protocol::error::{Error, Kind};
use crate::protocol::message;
use crate::protocol::params::TaskMetadata;
use crate::protocol::revision::Revision;
use crate::protocol::rpc::{Id, IdBuf};
use crate::server::calls::Work;
use crate::server::desk::role::{Asking, Flag, Role, Turn};
use crate::server::desk::voice::{LocalVoice, Logs};
use crate::server::editor::Editor;
use crate::server::letter::{self, Letter, Reach, WorkerVoice};
use crate::server::party::Said;
use crate::server::questions::Asker;
use crate::server::session::Peer;
use crate::server::tasks::{Birth, End, TaskLetter, TaskNote};
use crate::service::{
    BlockingWork, Call, Features, HandlerError, Live, LocalWork, Reply, TaskSupport, Worker, Yield,
};

/// How a call is to be run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Manner {
    /// As a call: its answer is its result.
    Call,
    /// As a call that becomes a task when its handler says so.
    CallFirst(Option<Duration>),
    /// As a task, kept for as long as the caller wants where it said so.
    Task(Option<Duration>),
}

impl Road {
    /// Carries out a call as a task, where it is to be one from the start; the answer is written
    /// then. Otherwise it is to be carried out as a call, which may turn into a task as told.
    #[inline]
    pub(super) fn try_task(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
    ) -> ControlFlow<Said, Turn> {
        if admitted.method == Method::ToolsCall && self.catalog.has(Features::TASKS) {
            return self.decide(passage, peer, admitted);
        }
        ControlFlow::Continue(Turn::None)
    }

    fn decide(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
    ) -> ControlFlow<Said, Turn> {
        let call = Call::from_params(admitted.revision, admitted.members);
        let manner = call.and_then(|call| Ok((call, self.manner(admitted, call.name())?)));
        match manner {
            Ok((_, Manner::Call)) => ControlFlow::Continue(Turn::None),
            Ok((_, Manner::CallFirst(ttl))) => ControlFlow::Continue(Turn::Possible(ttl)),
            Ok((call, Manner::Task(ttl))) => {
                let call = call.from_client(admitted.capabilities);
                ControlFlow::Break(self.call_as_task(passage, peer, admitted, &call, ttl))
            }
            Err(error) => ControlFlow::Break(self.refuse_admitted(peer, admitted, &error)),
        }
    }

    /// Whether a call of a tool becomes a task: up to 2025-11-25 the caller decides within what the
    /// tool allows, from 2026-07-28 on the server does, for clients that know tasks.
    ///
    /// Fails where the tool needs a task and the client knows none, or where the client wants one
    /// and the tool has none.
    fn manner(&self, admitted: &Admitted<'_>, name: &str) -> Result<Manner, Error> {
        let Some(tool) = self.catalog.tool(name) else { return Ok(Manner::Call) };
        let support = tool.task_support();
        let begin = |ttl| {
            if tool.asks_before_task() { Manner::CallFirst(ttl) } else { Manner::Task(ttl) }
        };
        if admitted.revision.is_modern() {
            let knows = admitted.capabilities.has(ClientCapabilities::EXTENSION_TASKS);
            return match support {
                TaskSupport::Required if !knows => {
                    Err(Error::missing_capability(ClientCapabilities::EXTENSION_TASKS))
                }
                TaskSupport::Required | TaskSupport::Optional if knows => Ok(begin(None)),
                _ => Ok(Manner::Call),
            };
        }
        let may_want = admitted.revision.dialect().core_tasks && admitted.members.has_extras();
        let wanted = if may_want { TaskMetadata::wanted(admitted.params)? } else { None };
        match (support, wanted) {
            (TaskSupport::Forbidden, Some(_)) => {
                Err(Error::new(Kind::MethodNotFound, "the tool does not run as a task"))
            }
            (TaskSupport::Required, None) => {
                Err(Error::new(Kind::MethodNotFound, "the tool runs as a task only"))
            }
            (_, None) => Ok(Manner::Call),
            (_, Some(task)) => Ok(begin(task.ttl_ms.map(Duration::from_millis))),
        }
    }

    /// Carries out a call as a task; the answer is written when this returns.
    fn call_as_task(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
        call: &Call<'_>,
        ttl: Option<Duration>,
    ) -> Said {
        let start = peer.outgoing.len();
        let reply = self.catalog.call(call, admitted.id, peer.outgoing);
        let birth = Birth {
            party: passage.outlet.party,
            client: admitted.client(),
            progress_token: admitted.progress_token.map(IdBuf::from),
            ttl,
        };
        let (begun, end) = match reply {
            Reply::Ready { is_failed } => {
                self.counters.requests.tools_failed += u64::from(is_failed);
                if admitted.revision.is_modern() {
                    return Said::Answer;
                }
                let body = body_of(&peer.outgoing[start..], admitted.id).to_vec();
                peer.outgoing.truncate(start);
                let end = End::Result { body, is_failed };
                (self.tasks.begin(birth, passage.now), Some(end))
            }
            Reply::Failed(error) => (Err(error), None),
            Reply::Local(work) => (self.begin_local(birth, work, passage.now), None),
            Reply::Blocking(work) => (self.begin_blocking(birth, work, passage.now), None),
        };
        let task = match begun {
            Ok(task) => task,
            Err(error) => return self.refuse_admitted(peer, admitted, &error),
        };
        self.say_begun(peer.outgoing, admitted.id, task);
        if let Some(end) = end {
            self.tasks.finish(task, end, passage.now);
        }
        Said::Answer
    }

    /// The answer to the call `id`, which has become a task.
    pub(in crate::server) fn say_begun(&mut self, out: &mut Vec<u8>, id: Id<'_>, task: Key) {
        self.counters.requests.tasks_begun += 1;
        let Some(task) = self.tasks.task(task) else { return };
        let suffix = self.catalog.result_suffix(task.revision);
        message::result_open(out, id);
        task.tell(self.calendar, |view, _| {
            message::create_task_result(out, task.revision, &view, suffix);
        });
        message::result_close(out);
    }

    /// How the handler of a task asks its client.
    pub(in crate::server) fn task_asking(&mut self, key: Key) -> Asking {
        match self.tasks.task(key) {
            Some(task) if task.revision.is_modern() => Asking::Inputs(Rc::clone(&task.inquiries)),
            _ => Asking::Requests,
        }
    }

    /// Begins a task that a future on this shard runs.
    fn begin_local(&mut self, birth: Birth, work: LocalWork, now: Moment) -> Result<Key, Error> {
        let client = birth.client;
        let logs = self.task_logs(client.revision);
        let key = self.tasks.begin(birth, now)?;
        let asking = (Asker::Task(key), self.task_asking(key));
        let flag = Rc::<Flag>::default();
        let client = (client, Rc::clone(&flag));
        let role = Rc::new(Role::new(&self.desk, client, asking, Turn::None));
        let voice = LocalVoice { role: Rc::clone(&role), logs };
        let running = self.host.spawn(Box::pin(role.run(work(Live::new(Rc::new(voice))))));
        self.tasks.attach(key, Work::Local { task: Some(running), flag });
        Ok(key)
    }

    /// Begins a task that a closure on the thread pool runs.
    fn begin_blocking(
        &mut self,
        birth: Birth,
        work: BlockingWork,
        now: Moment,
    ) -> Result<Key, Error> {
        let client = birth.client;
        let logs = self.task_logs(client.revision);
        let key = self.tasks.begin(birth, now)?;
        let interest = Arc::new(());
        let watched = Arc::downgrade(&interest);
        let (post, shard) = (self.post.clone(), self.shard);
        let reach: Arc<dyn Reach> = Arc::<Editor>::clone(&self.editor);
        let job = Box::new(move || {
            let (ticket, interest) = (key, watched);
            let own = post.clone();
            let call = WorkerVoice { post: own, shard, ticket, interest, client, logs, reach };
            let voice = TaskWorkerVoice { call, task: key };
            let note = TaskNote::Finished(work(Worker::new(Arc::new(voice))));
            let letter = Letter::Task(Box::new(TaskLetter::Said { task: key, note }));
            letter::deliver(&post, shard, letter);
        });
        if self.blocking.run(job).is_err() {
            self.counters.shard.blocking_refused += 1;
            self.tasks.forget(key);
            return Err(Error::new(
                Kind::Busy,
                "every thread for blocking tools is taken and the queue is full",
            ));
        }
        self.counters.shard.blocking_calls += 1;
        self.tasks.attach(key, Work::Blocking { interest: Some(interest) });
        Ok(key)
    }

    /// Which log messages a task passes on: up to 2025-11-25 those that its session wants, with the
    /// name of the task; the extension of 2026-07-28 has none.
    fn task_logs(&self, revision: Revision) -> Logs {
        let has_log = self.catalog.has(Features::LOGGING) && !revision.is_modern();
        if has_log { Logs::BySession } else { Logs::Never }
    }

    /// What a handler returned, as it is kept: the result in the words of the caller's revision.
    pub(in crate::server) fn end_of(
        &mut self,
        revision: Revision,
        result: Result<Yield, HandlerError>,
    ) -> End {
        let mut out = Vec::new();
        match self.catalog.settle(revision, NOBODY, result, &mut out) {
            Ok(is_failed) => {
                self.counters.requests.tools_failed += u64::from(is_failed);
                End::Result { body: body_of(&out, NOBODY).to_vec(), is_failed }
            }
            Err(error) => {
                self.count_error(&error);
                End::Error(error)
            }
        }
    }
}

/// Who is named in a response that is taken apart before it is sent.
const NOBODY: Id<'static> = Id::Signed(0);

/// The body of a response to `id`.
fn body_of<'r>(response: &'r [u8], id: Id<'_>) -> &'r [u8] {
    let mut before = Vec::new();
    message::result_open(&mut before, id);
    let mut after = Vec::new();
    message::result_close(&mut after);
    let end = response.len().saturating_sub(after.len());
    response.get(before.len()..end).unwrap_or_default()
}
