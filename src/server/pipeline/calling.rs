//! `tools/call`: answered at once by an inline handler, or handed over to answer by ticket.

use std::rc::Rc;
use std::sync::Arc;

use super::admission::Admitted;
use super::{Passage, Road};
use crate::base::slab::Key;
use crate::link::Connection;
use crate::protocol::error::{Error, Kind};
use crate::protocol::inflight::Ticket;
use crate::protocol::rpc::IdBuf;
use crate::server::calls::{Caller, Work};
use crate::server::desk::{Flag, LocalVoice, Note};
use crate::server::letter::{self, Letter, WorkerVoice};
use crate::server::session::Session;
use crate::service::{BlockingWork, Call, Live, LocalWork, Reply, Worker};

impl Road {
    /// `tools/call`: an inline tool has answered when this returns; the others answer by ticket.
    #[inline]
    pub(super) fn tools_call(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        admitted: &Admitted<'_>,
    ) -> bool {
        let reply = match Call::read(admitted.revision, admitted.params) {
            Ok(call) => {
                let call = call.from_client(admitted.capabilities);
                self.catalog.call(&call, admitted.id, &mut connection.outgoing)
            }
            Err(error) => Reply::Failed(error),
        };
        let handed_over = match reply {
            Reply::Ready { is_failed } => {
                self.counters.requests.tools_failed += u64::from(is_failed);
                return true;
            }
            Reply::Failed(error) => Err(error),
            Reply::Local(work) => self.hand_to_shard(passage, connection, admitted, work),
            Reply::Blocking(work) => self.hand_to_pool(passage, connection, admitted, work),
        };
        let Err(error) = handed_over else { return false };
        let revision = Some(admitted.revision);
        self.say_error(connection, Some(admitted.id), &error, revision);
        true
    }

    /// Starts a local handler: a future on this shard.
    fn hand_to_shard(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        admitted: &Admitted<'_>,
        work: LocalWork,
    ) -> Result<(), Error> {
        let flag = Rc::<Flag>::default();
        let local = Work::Local { task: None, flag: Rc::clone(&flag) };
        let ticket = self.enter(passage, connection, admitted, local)?;
        let desk = Rc::clone(&self.desk);
        let voice = LocalVoice { desk: Rc::clone(&desk), ticket, flag, client: admitted.client() };
        let running = work(Live::new(Rc::new(voice)));
        let task = self.host.spawn(Box::pin(async move {
            let result = running.await;
            desk.leave(Note::Finished { ticket, result });
        }));
        self.calls.attach(ticket, task);
        Ok(())
    }

    /// Starts a blocking handler: a closure on the thread pool.
    fn hand_to_pool(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        admitted: &Admitted<'_>,
        work: BlockingWork,
    ) -> Result<(), Error> {
        let interest = Arc::new(());
        let watched = Arc::downgrade(&interest);
        let blocking = Work::Blocking { interest: Some(interest) };
        let ticket = self.enter(passage, connection, admitted, blocking)?;
        let (post, shard, client) = (self.post.clone(), self.shard, admitted.client());
        let job = Box::new(move || {
            let voice = WorkerVoice {
                post: post.clone(),
                shard,
                ticket,
                interest: watched.clone(),
                client,
            };
            let result = work(Worker::new(Arc::new(voice)));
            letter::deliver(&post, shard, Letter::Finished { ticket, result }, &watched);
        });
        if self.blocking.run(job).is_ok() {
            self.counters.shard.blocking_calls += 1;
            return Ok(());
        }
        self.counters.shard.blocking_refused += 1;
        self.calls.end(ticket);
        connection.owed -= 1;
        connection.session.in_flight.remove(admitted.id);
        Err(Error::new(
            Kind::Busy,
            "every thread for blocking tools is taken and the queue is full",
        ))
    }

    /// Enters a call that answers later; as many as may be in flight are no reason to stop reading
    /// (what comes next may be the answer that one of them waits for), only to refuse one more.
    fn enter(
        &mut self,
        passage: Passage,
        connection: &mut Connection<Session>,
        admitted: &Admitted<'_>,
        work: Work,
    ) -> Result<Key, Error> {
        let (in_flight_max, in_flight) =
            (self.requests_in_flight_max, &connection.session.in_flight);
        if in_flight.len() >= in_flight_max {
            self.counters.requests.refused_in_flight += 1;
            return Err(Error::busy(in_flight_max));
        }
        let caller = Caller {
            connection: passage.key,
            id: admitted.id.into(),
            revision: admitted.revision,
            progress_token: admitted.progress_token.map(IdBuf::from),
        };
        let deadline = passage.now.after(self.request_max);
        let ticket = self
            .calls
            .enter(caller, work, deadline)
            .ok_or_else(|| Error::new(Kind::Busy, "as many calls are in flight as may be"))?;
        let in_flight = &mut connection.session.in_flight;
        // Looked up when the request was admitted, and bounded by what the link lets in.
        in_flight.insert(admitted.id, Ticket(ticket.to_bits()), usize::MAX)?;
        connection.owed += 1;
        Ok(ticket)
    }
}
