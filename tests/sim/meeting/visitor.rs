//! A client that is asked, keeps tasks and listens: does its deeds and checks what it hears.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::protocol::revision::Revision;
use serde_json::Value;

use crate::frames::carrier::{Carrier, Weather};
use crate::meeting::commons::Commons;
use crate::meeting::deed::Deed;
use crate::meeting::errand::Errand;
use crate::meeting::ledger::{Heard, Ledger};
use crate::tally::Tally;

/// Who a visitor is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Person {
    pub(crate) number: u64,
    pub(crate) revision: Revision,
    /// It reads slowly.
    pub(crate) is_slow: bool,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub(super) person: Person,
    carrier: Carrier,
    deeds: VecDeque<Deed>,
    pub(super) random: Random,
    pub(crate) ledger: Ledger,
    pub(super) ids: u64,
    /// Requests whose answers are looked into.
    pub(super) errands: BTreeMap<u64, Errand>,
    /// Questions that wait for it, and those that do no more.
    pub(super) questions: Vec<Value>,
    pub(super) replied: Vec<Value>,
    /// Bytes that are still to be written.
    pub(super) unsaid: VecDeque<u8>,
    partial: Vec<u8>,
    next: Moment,
    is_deaf: bool,
    /// It has said goodbye and waits for the end of its connection.
    is_leaving: bool,
    /// Since when it has nothing to wait for, and reads.
    pub(super) settled: Option<Moment>,
    ended: Option<Moment>,
    digest: u64,
}

impl Visitor {
    /// A client that has just connected.
    pub(crate) fn new(
        person: Person,
        carrier: Carrier,
        deeds: Vec<Deed>,
        random: Random,
        now: Moment,
    ) -> Self {
        let mut visitor = Self {
            person,
            carrier,
            deeds: deeds.into(),
            random,
            ledger: Ledger::new(person.revision),
            ids: person.number * 1000,
            errands: BTreeMap::new(),
            questions: Vec::new(),
            replied: Vec::new(),
            unsaid: VecDeque::new(),
            partial: Vec::new(),
            next: now,
            is_deaf: false,
            is_leaving: false,
            settled: None,
            ended: None,
            digest: 0xCBF2_9CE4_8422_2325,
        };
        visitor.read_as_it_does();
        if person.revision.is_modern() {
            visitor.greet(now);
        } else {
            visitor.shake_hands(now);
        }
        visitor
    }

    /// Whether it has gone.
    pub(crate) const fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// When it had gone.
    pub(crate) const fn ended(&self) -> Option<Moment> {
        self.ended
    }

    /// What it heard and when, folded.
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// When it acts next, unless it hears something before; none while it only listens.
    pub(crate) fn next(&self) -> Option<Moment> {
        if self.is_over() {
            return None;
        }
        let carries = self.carrier.next();
        if self.is_leaving {
            return carries;
        }
        if !self.unsaid.is_empty() || self.deeds.front() != Some(&Deed::Settle) || self.is_deaf {
            return carries.into_iter().chain([self.next]).min();
        }
        let wakes =
            self.settled.map_or(self.next, |settled| settled.after(TOLD_MAX).max(self.next));
        let acts = self.ledger.is_settled().then_some(wakes);
        carries.into_iter().chain(acts).min()
    }

    /// What happened on its connection.
    pub(crate) fn tally(&self) -> Tally {
        self.ledger.tally.plus(self.carrier.tally())
    }

    /// Itself, for whoever reads a failure.
    pub(crate) fn describe(&self) -> String {
        let Self { person, deeds, ledger, errands, carrier, .. } = self;
        let carrier = carrier.describe();
        format!("{person:?} is to {deeds:?}; {ledger:?}; {errands:?}; {carrier}")
    }

    /// Hears what has come and does what is due.
    ///
    /// # Errors
    ///
    /// What was heard that must not be, or not heard that must be.
    pub(crate) fn turn(
        &mut self,
        now: Moment,
        commons: &mut Commons,
        weather: Weather,
    ) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        self.carrier.turn(now);
        let heard = self.hear_all(now, commons, weather);
        heard.map_err(|reason| format!("{reason}; {}", self.describe()))?;
        let has_ended = self.carrier.has_ended(now, weather);
        if has_ended.map_err(|reason| format!("{reason}; {}", self.describe()))? {
            self.end(now);
        }
        while !self.is_over() && !self.is_leaving && self.next <= now {
            let acted = self.act(now, commons);
            if !acted.map_err(|reason| format!("{reason}; {}", self.describe()))? {
                break;
            }
        }
        Ok(())
    }

    fn hear_all(
        &mut self,
        now: Moment,
        commons: &mut Commons,
        weather: Weather,
    ) -> Result<(), String> {
        let heard = self.carrier.heard(now, weather)?;
        if heard.is_empty() {
            return Ok(());
        }
        for byte in now.nanoseconds().to_le_bytes().iter().chain(&heard) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
        self.partial.extend_from_slice(&heard);
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            let message = serde_json::from_slice(&line).map_err(|error| error.to_string())?;
            self.hear(&message, now, commons)?;
        }
        Ok(())
    }

    fn hear(&mut self, message: &Value, now: Moment, commons: &mut Commons) -> Result<(), String> {
        match self.ledger.hear(message, now)? {
            Heard::Answer { id, method, span } => {
                self.ledger.shelf.hear(method, message, &mut commons.editions)?;
                let Some(errand) = self.errands.remove(&id) else { return Ok(()) };
                let kind = (method, self.person.revision.is_modern());
                if let Some(task) = errand.settle(message, kind, span, commons)? {
                    self.ledger.begin(&task);
                }
                Ok(())
            }
            Heard::Question { id } => {
                self.questions.push(message.clone());
                commons.name_question(&id)
            }
            Heard::Task => commons.see(&message["params"], None, now),
            Heard::Nothing => Ok(()),
        }
    }

    /// Does one deed; `false` where it has to wait.
    ///
    /// # Errors
    ///
    /// What it has not heard in time.
    fn act(&mut self, now: Moment, commons: &mut Commons) -> Result<bool, String> {
        if !self.unsaid.is_empty() {
            self.write(now);
            return Ok(true);
        }
        let deed = self.deeds.pop_front().unwrap_or(Deed::Close);
        match deed {
            Deed::Wait(span) => self.next = now.after(span),
            Deed::StopReading => {
                self.is_deaf = true;
                self.settled = None;
                self.carrier.stop_reading();
            }
            Deed::ReadAgain => self.read_as_it_does(),
            Deed::Settle => return self.settle(now, commons),
            Deed::Close => self.leave(now),
            Deed::Reset => {
                self.carrier.reset();
                self.end(now);
            }
            deed => self.speak(deed, now, commons),
        }
        if self.random.chance(1, 2) {
            self.next =
                self.next.max(now.after(Duration::from_micros(self.random.below(1_000) as u64)));
        }
        Ok(true)
    }

    /// Waits until everything was answered, and a little longer for what is told unasked.
    fn settle(&mut self, now: Moment, commons: &Commons) -> Result<bool, String> {
        if self.is_deaf {
            self.read_as_it_does();
        }
        match self.settled.filter(|_| self.ledger.is_settled()) {
            Some(settled) if now >= settled.after(TOLD_MAX) => {
                self.settled = None;
                let must_be = |task: &str| commons.must_be_known(task, now, TOLD_MAX);
                let untold = self.ledger.untold(must_be).filter(|_| !self.person.is_slow);
                return untold.map_or(Ok(true), Err);
            }
            Some(_) => {}
            None => self.settled = self.ledger.is_settled().then_some(now),
        }
        self.deeds.push_front(Deed::Settle);
        Ok(false)
    }

    /// Writes a piece of what it says, most often all of it.
    fn write(&mut self, now: Moment) {
        let length = match self.random.below(6) {
            0 => 1 + self.random.below(self.unsaid.len()),
            _ => self.unsaid.len(),
        };
        let piece: Vec<u8> = self.unsaid.drain(..length).collect();
        self.carrier.write(&piece, now);
        if self.random.chance(1, 3) {
            self.next = now.after(Duration::from_micros(self.random.below(300) as u64));
        }
    }

    fn read_as_it_does(&mut self) {
        self.is_deaf = false;
        if self.person.is_slow {
            let bytes = 256 + self.random.below(4_000);
            let every = Duration::from_micros(1 + self.random.below(1_000) as u64);
            self.carrier.read_slowly(bytes, every);
        } else {
            self.carrier.read_eagerly();
        }
    }

    /// Goes away.
    fn leave(&mut self, now: Moment) {
        if self.is_deaf {
            self.read_as_it_does();
        }
        self.is_leaving = true;
        if self.carrier.leave(now) {
            self.end(now);
        }
    }

    fn end(&mut self, now: Moment) {
        self.ended = Some(now);
        self.ledger.tally.vanished += u64::from(!self.ledger.is_settled());
    }
}

/// How long it may take until everybody who listens was told of something.
const TOLD_MAX: Duration = Duration::from_millis(30);
