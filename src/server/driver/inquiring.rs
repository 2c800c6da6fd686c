//! What tasks up to 2025-11-25 ask the client that began them: a request each, tied to the task.
//!
//! What it keeps true: a question goes to the connection that began the task and to no other, once;
//! one that nobody can answer any more (nothing more is read) is answered with that; a question
//! whose task has ended is taken back.
//!
//! The id of such a request says all that is needed to find the question again, so nothing else has
//! to be kept: `task/NAME/KEY`.
//!
//! Source: 2025-11-25, basic/utilities/tasks, "Input Required Status".

use std::rc::Rc;

use super::ShardDriver;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::Ring;
use crate::protocol::message;
use crate::protocol::rpc::Id;
use crate::server::pipeline::question_id;
use crate::service::AskError;

impl ShardDriver {
    /// Sends what a task has to ask and nobody has been told of, and takes back what nobody needs
    /// to answer any more.
    pub(super) fn ask_beginner<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let Some(task) = self.road.tasks.task(key) else { return };
        let (connection, revision, name) = (task.connection, task.revision, task.name().to_owned());
        let inquiries = Rc::clone(&task.inquiries);
        let listens = self.link.connections.get(connection).is_some_and(|it| !it.is_discarding());
        let Some(out) = self.link.outgoing(connection).filter(|_| listens) else {
            inquiries.give_up(&AskError::Refused(GONE.into()));
            self.road.tasks.weigh_questions(key, now);
            return;
        };
        let mut texts = 0;
        for question in inquiries.take_withdrawn() {
            let id = question_id(&name, &question);
            message::cancelled(out, Id::Text(&id), Some("the task has ended"));
            self.road.end_text(out);
            texts += 1;
        }
        inquiries.send_open(|question, request| {
            let id = question_id(&name, question);
            message::request(out, Id::Text(&id), request, revision, Some(&name));
            self.road.end_text(out);
            self.road.counters.questions.asked += 1;
            texts += 1;
        });
        if texts > 0 {
            self.weigh_or_end(ring, connection, now);
        }
    }

    /// Nothing more will be read from a connection, or from any: what its tasks have asked stays
    /// unanswered.
    pub(super) fn dismiss_inquiries(&mut self, connection: Option<Key>, now: Moment) {
        for key in self.road.tasks.asking(connection) {
            if let Some(task) = self.road.tasks.task(key) {
                task.inquiries.give_up(&AskError::Refused(GONE.into()));
            }
            self.road.tasks.weigh_questions(key, now);
        }
    }
}

/// Why a question has no answer.
const GONE: &str = "nothing more is read from the connection that began the task";
