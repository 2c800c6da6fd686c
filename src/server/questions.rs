//! What handlers ask their clients, and how the answers find back.
//!
//! ```text
//!                       ┌─ legacy: a request to the client ─▶ [`Questions`] ─▶ response ─┐
//!   handler ── ask ─────┤                                                                ├─▶ handler
//!                       └─ modern: [`Posed`], the round ends ─▶ the same call once more ─┘
//! ```
//!
//! What it keeps true: a question is answered once, by whoever it was asked, or it is taken back,
//! which its client hears of; a response to anything else changes nothing; no question outlives the
//! call or the task that asked it. A question whose handler does not wait any more costs nobody an
//! answer.
//!
//! What it does not do: write messages, or look at what a client can do; the one is for the driver,
//! the other for the service room.
//!
//! Source: `basic/lifecycle` ("Timeouts") and `basic/utilities/{cancellation,progress}` of the
//! legacy revisions; 2026-07-28 `basic/patterns/mrtr`.

mod dialogue;

pub(super) mod rounds;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::ready;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(super) use self::dialogue::{Asker, Dialogue};
use self::rounds::{Binding, Round};
use super::party::{Outlet, Party};
use crate::base::time::Moment;
use crate::engine::timer::Wheel;
use crate::protocol::json::Value;
use crate::protocol::message::{Action, InputRequest, InputResponse};
use crate::protocol::rpc::{Id, IdBuf};
use crate::service::{AskError, HostFuture};

/// What comes of a question.
pub(super) type Reply = Result<InputResponse, AskError>;

/// Questions that one call or task may have open at once. A handler that asks more has lost count.
pub(super) const QUESTIONS_MAX: usize = 32;

/// A client that tells progress has its time anew, up to so many times the whole of it: a client
/// must not hold a handler for ever.
const EXTENSIONS_MAX: u32 = 8;

/// Characters of a client's refusal that a handler gets to see.
const REFUSAL_CHARACTERS_MAX: usize = 400;

/// The open questions of one shard to its clients, by number.
#[derive(Debug)]
pub(super) struct Questions {
    open: BTreeMap<u64, Question>,
    wheel: Wheel<u64>,
    /// The first half of every id: what a client hears is unique in the process.
    shard: u16,
    /// How long a client has.
    pub(super) question_max: Duration,
}

/// One question that waits for its client.
#[derive(Debug)]
pub(super) struct Question {
    /// Who was asked, and which way.
    pub(super) outlet: Outlet,
    /// The handler that asks.
    pub(super) asker: Asker,
    /// What the response must name.
    pub(super) id: IdBuf,
    /// What was asked.
    pub(super) request: InputRequest,
    slot: Rc<Slot>,
    asked: Moment,
    deadline: Moment,
}

/// Where an answer is laid down for the handler that waits for it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    reply: RefCell<Option<Reply>>,
    waker: RefCell<Option<Waker>>,
}

/// What a response was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Settled {
    /// The user agreed to open an address: what happens there is not over with this.
    Accepted,
    /// An answer, or a refusal.
    Answered,
    /// Not what was asked for.
    Malformed,
}

impl Questions {
    /// No question of `shard`.
    pub(super) fn new(shard: u16, question_max: Duration) -> Self {
        Self { open: BTreeMap::new(), wheel: Wheel::new(), shard, question_max }
    }

    /// Opens question `number`, which never comes twice; hands it back to be said.
    pub(super) fn open(
        &mut self,
        number: u64,
        (outlet, asker): (Outlet, Asker),
        request: InputRequest,
        slot: Rc<Slot>,
        now: Moment,
    ) -> &Question {
        let id = IdBuf::from(Id::Text(&format!("corelane-{}-{number}", self.shard)));
        let deadline = now.after(self.question_max);
        // Most are answered long before their deadline.
        self.wheel.shed(self.open.len(), |number| self.open.contains_key(number));
        self.wheel.insert(deadline, number);
        let question = Question { outlet, asker, id, request, slot, asked: now, deadline };
        self.open.entry(number).or_insert(question)
    }

    /// Takes the question out that `party` answers by `id`; none where it was never asked
    /// that, has answered already, or comes too late.
    pub(super) fn answered(&mut self, party: Party, id: Id<'_>) -> Option<(u64, Question)> {
        let number = self.find(party, id)?;
        self.take(number).map(|question| (number, question))
    }

    /// A client tells that it works on a question: it has its time anew, within bounds. `false`
    /// where the token names no question of its.
    pub(super) fn progress(&mut self, party: Party, token: Id<'_>, now: Moment) -> bool {
        let number = self.find(party, token);
        let Some(question) = number.and_then(|number| self.open.get_mut(&number)) else {
            return false;
        };
        let last = question.asked.after(self.question_max.saturating_mul(EXTENSIONS_MAX));
        // The entry of the wheel stays where it is and looks again when it is reached.
        question.deadline = now.after(self.question_max).min(last);
        true
    }

    /// What asked some questions goes on as something else.
    pub(super) fn hand_over(&mut self, numbers: &[u64], asker: Asker) {
        for number in numbers {
            if let Some(question) = self.open.get_mut(number) {
                question.asker = asker;
            }
        }
    }

    /// Takes a question back that nobody waits for any more, where it is still open.
    pub(super) fn take(&mut self, number: u64) -> Option<Question> {
        self.open.remove(&number)
    }

    /// Takes one question out whose client has had its time.
    pub(super) fn overdue(&mut self, now: Moment) -> Option<(u64, Question)> {
        loop {
            let number = self.wheel.pop_expired(now)?;
            match self.open.get(&number) {
                Some(question) if question.deadline > now => {
                    self.wheel.insert(question.deadline, number);
                }
                Some(_) => return self.take(number).map(|question| (number, question)),
                None => {}
            }
        }
    }

    /// Questions that are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// When the next question is overdue.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.wheel.next_deadline()
    }

    /// The numbers of all questions without an answer.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.open.keys().copied().collect()
    }

    fn find(&self, party: Party, id: Id<'_>) -> Option<u64> {
        let Id::Text(text) = id else { return None };
        let number = text.rsplit('-').next()?.parse().ok()?;
        let question = self.open.get(&number)?;
        (question.outlet.party == party && question.id.as_id() == id).then_some(number)
    }
}

impl Question {
    /// Lays the client's response down for the handler.
    pub(super) fn settle(self, outcome: Result<Value<'_>, Value<'_>>) -> Settled {
        let reply = match outcome {
            Ok(result) => {
                self.request.read_response(&result.to_json()).map_err(AskError::Malformed)
            }
            Err(fault) => Err(AskError::Refused(words_of(fault))),
        };
        let settled = match (&self.request, &reply) {
            (_, Err(AskError::Malformed(_))) => Settled::Malformed,
            (InputRequest::Elicit(asked), Ok(InputResponse::Elicited(elicited)))
                if asked.is_url() && elicited.action == Action::Accept =>
            {
                Settled::Accepted
            }
            _ => Settled::Answered,
        };
        self.slot.put(reply);
        settled
    }

    /// What a client knows the address by that it was asked to open: the id that the handler gave,
    /// or that of the question.
    pub(super) fn address(&self) -> Option<Box<str>> {
        let InputRequest::Elicit(elicitation) = &self.request else { return None };
        match (elicitation.id(), self.id.as_id()) {
            (Some(own), _) => Some(own.into()),
            (None, Id::Text(id)) => Some(id.into()),
            (None, _) => None,
        }
    }

    /// Tells the handler that there will be no answer.
    pub(super) fn fail(self, error: AskError) {
        self.slot.put(Err(error));
    }
}

/// What a client says with the error that is its answer, as much of it as a handler gets to see.
pub(super) fn words_of(fault: Value<'_>) -> Box<str> {
    let words = fault.as_object().and_then(|fault| fault.find("message"));
    let words = words.and_then(Value::as_str).unwrap_or_default();
    words.chars().take(REFUSAL_CHARACTERS_MAX).collect()
}

impl Slot {
    /// Lays down what has come of the question, and wakes the handler.
    pub(super) fn put(&self, reply: Reply) {
        *self.reply.borrow_mut() = Some(reply);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// What has come of the question, once there is something.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Reply> {
        if let Some(reply) = self.reply.take() {
            return Poll::Ready(reply);
        }
        *self.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The questions of one round: answered from what the call brought along, or left open when the
/// handler cannot go on without.
#[derive(Debug)]
pub(super) struct Posed {
    /// What was answered in the rounds before.
    pub(super) round: Round,
    /// The request that the next state will belong to.
    pub(super) binding: Binding,
    open: RefCell<Vec<Pose>>,
    /// Questions so far: the number of the next one.
    numbers: Cell<u64>,
}

/// One question that the round leaves open.
#[derive(Debug)]
pub(super) struct Pose {
    number: u64,
    /// Its name among those of the call.
    pub(super) key: Box<str>,
    /// What is asked.
    pub(super) request: InputRequest,
}

impl Posed {
    /// The questions of a handler that runs for the request `binding`, after `round`.
    pub(super) fn new(round: Round, binding: Binding) -> Self {
        Self { round, binding, open: RefCell::default(), numbers: Cell::new(0) }
    }

    /// Asks. Ready at once where the client has answered; never where it has not: the round ends
    /// with the handler.
    pub(super) fn ask(self: &Rc<Self>, key: &str, request: InputRequest) -> HostFuture<Reply> {
        if let Some(answer) = self.round.answer(key) {
            return Box::pin(ready(request.read_response(answer).map_err(AskError::Malformed)));
        }
        Box::pin(Unanswered {
            posed: Rc::clone(self),
            question: Some((key.into(), request)),
            number: None,
        })
    }

    /// Whether the handler waits for an answer that is not there.
    pub(super) fn is_open(&self) -> bool {
        !self.open.borrow().is_empty()
    }

    /// Takes the open questions, one for each key.
    pub(super) fn take(&self) -> Vec<Pose> {
        let mut open = self.open.take();
        let mut from = 0;
        while from < open.len() {
            let (before, rest) = open.split_at(from);
            if before.iter().any(|pose| pose.key == rest[0].key) {
                open.remove(from);
            } else {
                from += 1;
            }
        }
        open
    }
}

/// Stands open until it is dropped, by its handler or with it.
struct Unanswered {
    posed: Rc<Posed>,
    question: Option<(Box<str>, InputRequest)>,
    number: Option<u64>,
}

impl Future for Unanswered {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Reply> {
        let Some((key, request)) = self.question.take() else { return Poll::Pending };
        let posed = Rc::clone(&self.posed);
        let mut open = posed.open.borrow_mut();
        if open.len() >= QUESTIONS_MAX {
            return Poll::Ready(Err(too_many()));
        }
        let number = posed.numbers.get();
        posed.numbers.set(number + 1);
        open.push(Pose { number, key, request });
        drop(open);
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.posed.open.borrow_mut().retain(|pose| pose.number != number);
        }
    }
}

/// What a handler hears that asks too much at once.
#[cold]
pub(super) fn too_many() -> AskError {
    AskError::Refused(format!("a call or task may ask {QUESTIONS_MAX} questions at once").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::slab::Key;
    use crate::protocol::json::{Limits, PADDING_BYTES, Parser};

    const CLIENT: Party = Party::Connection(Key::from_bits(1));
    const STRANGER: Party = Party::Connection(Key::from_bits(2));
    const CALL: Asker = Asker::Call(Key::from_bits(7));

    fn at(seconds: u64) -> Moment {
        Moment::from_milliseconds(seconds * 1000)
    }

    /// Opens question `number` and tells its id.
    fn open(questions: &mut Questions, number: u64, slot: &Rc<Slot>) -> IdBuf {
        let slot = Rc::clone(slot);
        questions
            .open(number, (Outlet::general(CLIENT), CALL), InputRequest::Roots, slot, at(0))
            .id
            .clone()
    }

    fn questions() -> Questions {
        Questions::new(3, Duration::from_secs(10))
    }

    fn reply(slot: &Slot) -> Poll<Reply> {
        slot.poll(&Context::from_waker(Waker::noop()))
    }

    fn settle(question: Question, response: &str) -> Settled {
        let mut parser = Parser::new(Limits::default());
        let mut bytes = response.as_bytes().to_vec();
        bytes.resize(response.len() + PADDING_BYTES, 0);
        let document = parser.parse(&mut bytes, response.len()).unwrap();
        question.settle(Ok(document.root()))
    }

    #[test]
    fn only_the_client_that_was_asked_answers_and_only_once() {
        let (mut questions, slot) = (questions(), Rc::<Slot>::default());
        let id = open(&mut questions, 5, &slot);
        assert_eq!(id.as_id(), Id::Text("corelane-3-5"));
        assert!(questions.answered(STRANGER, id.as_id()).is_none());
        for other in [Id::Text("corelane-4-5"), Id::Text("corelane-3-05"), Id::Signed(5)] {
            assert!(questions.answered(CLIENT, other).is_none());
        }
        let (number, question) = questions.answered(CLIENT, id.as_id()).unwrap();
        assert_eq!(number, 5);
        assert!(reply(&slot).is_pending());
        assert_eq!(settle(question, r#"{"roots":[]}"#), Settled::Answered);
        assert!(matches!(reply(&slot), Poll::Ready(Ok(InputResponse::Roots(_)))));
        assert!(questions.answered(CLIENT, id.as_id()).is_none());
    }

    #[test]
    fn a_client_that_may_think_for_ever_may_tell_progress() {
        let (mut questions, slot) = (Questions::new(3, Duration::MAX), Rc::<Slot>::default());
        let id = open(&mut questions, 5, &slot);
        assert!(questions.progress(CLIENT, id.as_id(), at(1)));
        assert!(questions.overdue(at(1_000_000)).is_none());
    }

    #[test]
    fn an_answer_that_is_none_is_told_apart() {
        let (mut questions, slot) = (questions(), Rc::<Slot>::default());
        let id = open(&mut questions, 0, &slot);
        let (_, question) = questions.answered(CLIENT, id.as_id()).unwrap();
        assert_eq!(settle(question, r#"{"roots":7}"#), Settled::Malformed);
        assert!(matches!(reply(&slot), Poll::Ready(Err(AskError::Malformed(_)))));
    }

    #[test]
    fn progress_gives_a_client_time_but_not_for_ever() {
        let (mut questions, slot) = (questions(), Rc::<Slot>::default());
        let id = open(&mut questions, 0, &slot);
        assert!(!questions.progress(STRANGER, id.as_id(), at(9)));
        assert!(!questions.progress(CLIENT, Id::Text("corelane-3-1"), at(9)));
        for now in (9..80).step_by(9) {
            assert!(questions.progress(CLIENT, id.as_id(), at(now)));
            assert!(questions.overdue(at(now + 1)).is_none(), "{now}");
        }
        assert!(questions.progress(CLIENT, id.as_id(), at(79)));
        assert!(questions.overdue(at(79)).is_none());
        let (number, question) = questions.overdue(at(80)).unwrap();
        question.fail(AskError::TimedOut);
        assert_eq!((number, questions.deadline()), (0, None));
        assert!(matches!(reply(&slot), Poll::Ready(Err(AskError::TimedOut))));
    }

    #[test]
    fn what_was_taken_back_is_neither_open_nor_overdue() {
        let (mut questions, slot) = (questions(), Rc::<Slot>::default());
        open(&mut questions, 0, &slot);
        open(&mut questions, 1, &slot);
        assert_eq!(questions.numbers(), [0, 1]);
        assert!(questions.take(0).is_some());
        assert!(questions.take(0).is_none());
        assert_eq!(questions.numbers(), [1]);
        assert_eq!(questions.overdue(at(10)).unwrap().0, 1);
        assert!(questions.overdue(at(10)).is_none());
    }

    #[test]
    fn a_round_leaves_open_what_is_waited_for_once_for_each_key() {
        let posed = Rc::new(Posed::new(Round::default(), Binding::default()));
        let ask = |key| posed.ask(key, InputRequest::Roots);
        let mut futures = [ask("a"), ask("b"), ask("a"), ask("c")];
        assert!(!posed.is_open());
        for future in &mut futures {
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let [a, b, again, c] = futures;
        drop(c);
        let keys: Vec<_> = posed.take().into_iter().map(|pose| pose.key).collect();
        assert_eq!(keys, ["a".into(), "b".into()]);
        drop((a, b, again));
        assert!(!posed.is_open());
    }

    #[test]
    fn a_handler_that_asks_too_much_at_once_hears_so() {
        let posed = Rc::new(Posed::new(Round::default(), Binding::default()));
        let mut futures: Vec<_> = (0..=QUESTIONS_MAX)
            .map(|key| posed.ask(&key.to_string(), InputRequest::Roots))
            .collect();
        let mut poll =
            |place: usize| futures[place].as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!((0..QUESTIONS_MAX).all(|place| poll(place).is_pending()));
        assert!(matches!(poll(QUESTIONS_MAX), Poll::Ready(Err(AskError::Refused(_)))));
    }
}
