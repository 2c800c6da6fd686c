//! One client with all its connections: what it does, and when.
//!
//! What it hears is judged in `ear`. It gives each connection up that the server has ended, and
//! asks again for the streams that it has lost when it settles.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::engine::ring::sim::World;
use corelane::protocol::revision::Revision;
use serde_json::Value;

use super::chores::Chore;
use super::line::{Asked, Kind, Line};
use super::speech::{self, Style};
use crate::tally::Tally;
use crate::web::checks::book::Book;
use crate::web::checks::chronicle::Chronicle;
use crate::web::hostile::relay::Relay;
use crate::web::offer::GUESTS_MAX;
use crate::web::plan::Deed;
use crate::world::street::address;
use crate::world::wire::Wire;

/// What a client has to know of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// How long a session may be idle; none where others may take its place at any time.
    pub(crate) ttl: Option<Duration>,
    /// Whether little may wait for a client to read it.
    pub(crate) is_narrow: bool,
    /// Whether old events may be forgotten.
    pub(crate) forgets: bool,
    /// Whether a call may be one too many.
    pub(crate) is_crowded: bool,
    /// Whether connections may break by themselves.
    pub(crate) may_break: bool,
    /// Whether the server drains.
    pub(crate) drains: bool,
    /// The one revision of a strict server.
    pub(crate) strict: Option<Revision>,
}

impl Facts {
    /// Whether what was said to the server, or by it, may be lost on its way for good.
    pub(super) const fn may_lose(&self) -> bool {
        self.drains || self.forgets || self.may_break
    }
}

/// One client.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(super) number: u32,
    pub(super) random: Random,
    pub(super) books: Vec<Book>,
    /// The session that it speaks in.
    pub(super) session: Option<usize>,
    pub(super) lines: Vec<Line>,
    /// Questions that it was asked, with the session.
    pub(super) questions: Vec<(usize, Value)>,
    pub(super) is_slow: bool,
    /// Whether little may wait for it to read.
    pub(super) is_narrow: bool,
    /// Whether it once did not read.
    pub(super) was_deaf: bool,
    pub(super) tally: Tally,
    pub(super) digest: u64,
    /// A session whose handshake is to be ended.
    pub(super) unconfirmed: Option<usize>,
    pub(super) chronicle: Rc<RefCell<Chronicle>>,
    pub(super) relay: Rc<RefCell<Relay>>,
    /// A session of 2024-11-05 whose handshake is to be begun.
    pub(super) unposted: Option<usize>,
    /// The one revision of a strict server.
    pub(super) strict: Option<Revision>,
    /// Requests whose answers are looked into.
    pub(super) chores: BTreeMap<u64, Chore>,
    /// The edition of the catalog that was seen last.
    pub(super) seen: Option<u64>,
    pub(super) ids: u64,
    deeds: VecDeque<Deed>,
    next: Moment,
    is_settling: bool,
    ended: Option<Moment>,
}

impl Guest {
    pub(crate) fn new(
        number: u32,
        deeds: Vec<Deed>,
        is_slow: bool,
        random: Random,
        (chronicle, relay): (Rc<RefCell<Chronicle>>, Rc<RefCell<Relay>>),
        now: Moment,
    ) -> Self {
        Self {
            number,
            random,
            books: Vec::new(),
            session: None,
            lines: Vec::new(),
            questions: Vec::new(),
            is_slow,
            is_narrow: false,
            was_deaf: false,
            tally: Tally::default(),
            digest: 0,
            unconfirmed: None,
            chronicle,
            relay,
            unposted: None,
            strict: None,
            chores: BTreeMap::new(),
            seen: None,
            deeds: deeds.into(),
            next: now,
            ids: 1_000 * u64::from(number),
            is_settling: false,
            ended: None,
        }
    }

    /// Whether it has gone.
    pub(crate) const fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// The books of its sessions.
    pub(crate) fn books(&self) -> impl Iterator<Item = &Book> {
        self.books.iter()
    }

    /// What happened to it.
    pub(crate) const fn tally(&self) -> Tally {
        self.tally
    }

    /// What it heard and when, folded.
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// How it stands, for whoever reads a failure.
    pub(crate) fn describe(&self) -> String {
        let Self { number, session, is_slow, ids, deeds, books, .. } = self;
        let lines: Vec<String> = self.lines.iter().map(|line| format!("\n  {line}")).collect();
        let books: Vec<String> = books.iter().map(|book| format!("\n  {book:?}")).collect();
        format!(
            "guest {number} in {session:?} (slow {is_slow}), {ids} said, to do {deeds:?}{}{}",
            lines.concat(),
            books.concat(),
        )
    }

    /// When it does something by itself.
    pub(crate) fn next(&self) -> Option<Moment> {
        let waits = self.lines.iter().filter(|line| line.waits() && !line.is_deaf);
        let limit = waits.map(|line| line.since.after(ANSWER_MAX)).min();
        let deed = (!self.is_settling).then_some(self.next);
        let pair = self.waits_for_pair().map(|since| since.after(ANSWER_MAX));
        let pair = pair.filter(|_| self.is_settling && !self.is_slow && !self.was_deaf);
        [limit, deed, pair].into_iter().flatten().min().filter(|_| !self.is_over())
    }

    /// Hears what has come, then does what is due.
    ///
    /// # Errors
    ///
    /// What does not hold.
    pub(crate) fn turn(&mut self, world: &World, now: Moment, facts: Facts) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        (self.is_narrow, self.strict) = (facts.is_narrow, facts.strict);
        self.hear_all(now, facts).map_err(|what| format!("{what}; {}", self.describe()))?;
        if let Some(session) = self.unconfirmed.take() {
            self.notify(Deed::Begin, session, world, now);
        }
        if let Some(session) = self.unposted.take() {
            self.shake_hands(session, world, now);
        }
        while !self.is_over() && self.next <= now {
            let Some(deed) = self.deeds.pop_front() else {
                self.leave(now);
                break;
            };
            if deed == Deed::Settle && !self.settle(world, now, facts) {
                self.deeds.push_front(deed);
                self.is_settling = true;
                break;
            }
            self.is_settling = false;
            self.act(deed, world, now);
        }
        if self.is_pair_late(now, facts, ANSWER_MAX) {
            return Err(format!("a posted request has no answer; {}", self.describe()));
        }
        let late = self.lines.iter().find(|line| {
            line.waits() && !line.is_deaf && !self.is_slow && now >= line.since.after(ANSWER_MAX)
        });
        match late.filter(|_| !facts.drains) {
            Some(line) => Err(format!("{:?} has no answer; {}", line.asked[0], self.describe())),
            None => Ok(()),
        }
    }

    fn leave(&mut self, now: Moment) {
        for line in &self.lines {
            self.tally.vanished += u64::from(!line.asked.is_empty());
            line.wire.close();
        }
        self.ended = Some(now);
    }

    /// Whether everything was answered that can be; asks for what was lost.
    fn settle(&mut self, world: &World, now: Moment, facts: Facts) -> bool {
        for place in 0..self.lines.len() {
            self.read_on(place, now);
        }
        if self.lines.iter().any(Line::waits) {
            return false;
        }
        // What a slow client misses, or one that has said its end, is not waited for.
        let is_heard = !self.is_slow && !self.was_deaf && !facts.may_lose();
        let is_heard = is_heard && self.lines.iter().all(|line| !line.is_finished);
        if is_heard && self.waits_for_pair().is_some() {
            return false;
        }
        let mut lost = self
            .books
            .iter()
            .enumerate()
            .filter(|(_, book)| book.gone.is_none() && !book.is_deleted && !facts.drains);
        let lost = lost.find_map(|(place, book)| Some((place, *book.unfinished().first()?)));
        let Some((session, seen)) = lost else { return true };
        self.resume(session, seen, world, now);
        false
    }

    fn act(&mut self, deed: Deed, world: &World, now: Moment) {
        let session = self.session;
        let is_pair = session.is_some_and(|session| self.books[session].is_pair());
        match (deed, session) {
            (Deed::Listen | Deed::Resume | Deed::Delete, _) if is_pair => {}
            (Deed::Pair, _) => self.begin_pair(world, now),
            (Deed::Wait(span), _) => self.next = now.after(span),
            (Deed::Begin, _) => self.begin(world, now),
            (Deed::Modern, _) => self.ask_modern(world, now),
            (Deed::Subscribe, _) => self.subscribe(world, now),
            (Deed::Plain, _) => self.ask_plainly(world, now),
            (Deed::Burst, _) => self.burst(world, now),
            (Deed::Look, _) => self.look(world, now),
            (Deed::Tasks, session) => self.keep_tasks(session, world, now),
            (Deed::Vary, session) => self.vary(session, world, now),
            (Deed::Batch, Some(session)) => self.batch(session, world, now),
            (Deed::Cut, _) => self.cut(),
            (Deed::Finish | Deed::Deafen | Deed::Hear, _) => self.treat(deed, now),
            (Deed::Work, Some(session)) => self.work(session, world, now),
            (Deed::Follow, Some(session)) => {
                let params = speech::subscribe(self.number);
                self.request(session, "resources/subscribe", params, Duration::ZERO, world, now);
            }
            (Deed::Touch, Some(session)) => {
                let params = speech::touch(self.random.below(GUESTS_MAX as usize) as u32);
                self.request(session, "tools/call", params, Duration::ZERO, world, now);
            }
            (Deed::Listen, Some(session)) => self.listen(session, world, now),
            (Deed::Resume, Some(session)) => {
                let known = self.books[session].streams.iter();
                let known = known.filter(|(_, stream)| !stream.is_lost && stream.last() > 0);
                let known: Vec<_> = known.map(|(number, it)| (*number, it.last())).collect();
                if !known.is_empty() {
                    let last = known[self.random.below(known.len())];
                    self.resume(session, last, world, now);
                }
            }
            (Deed::Delete, Some(session)) => {
                let asked = Asked::new(Kind::Delete, None, Some(session), now);
                let text = speech::of_session(
                    "DELETE",
                    self.books[session].name(),
                    None,
                    Style::default(),
                );
                self.say(asked, &text, world, now);
                self.books[session].is_deleted = true;
            }
            (Deed::Notice | Deed::Cancel | Deed::Reply, Some(session)) => {
                self.notify(deed, session, world, now);
            }
            _ => {}
        }
    }

    pub(super) fn say(&mut self, asked: Asked, text: &[u8], world: &World, now: Moment) {
        let place = self.line(world, now);
        let text = self.relay.borrow().ask(text.to_vec());
        self.lines[place].ask(asked, &text, now);
    }

    /// A connection to speak on: one that there is, or another.
    pub(super) fn line(&mut self, world: &World, now: Moment) -> usize {
        let open = self.lines.iter().enumerate().filter(|(_, line)| line.is_open());
        let open: Vec<usize> = open.map(|(place, _)| place).collect();
        if !open.is_empty() && (self.random.chance(1, 2) || self.lines.len() > LINES_MAX) {
            return open[self.random.below(open.len())];
        }
        self.connect(world, now)
    }

    /// Another connection.
    pub(super) fn connect(&mut self, world: &World, now: Moment) -> usize {
        let wire = Wire::stream(world.connect(address()));
        if self.is_slow {
            let bytes = 64 + self.random.below(2_000);
            wire.read_slowly(bytes, Duration::from_micros(1 + self.random.below(800) as u64));
        } else {
            wire.read_eagerly();
        }
        self.lines.push(Line::new(wire, now));
        self.lines.len() - 1
    }

    /// Breaks a connection.
    fn cut(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let line = self.lines.swap_remove(self.random.below(self.lines.len()));
        self.tally.cuts += u64::from(!line.asked.is_empty());
        self.give_up(&line);
        if self.random.chance(1, 2) { line.wire.reset() } else { line.wire.close() }
    }

    fn treat(&mut self, deed: Deed, now: Moment) {
        if self.lines.is_empty() {
            return;
        }
        let place = self.random.below(self.lines.len());
        let line = &mut self.lines[place];
        match deed {
            Deed::Finish => {
                line.is_finished = true;
                line.wire.finish();
            }
            Deed::Deafen => {
                line.is_deaf = true;
                self.was_deaf = true;
                line.wire.stop_reading();
            }
            _ => self.read_on(place, now),
        }
    }

    fn read_on(&mut self, place: usize, now: Moment) {
        let line = &mut self.lines[place];
        if std::mem::take(&mut line.is_deaf) {
            line.wire.read_eagerly();
            line.since = now;
        }
    }

    pub(super) const fn new_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }
}

/// How long an answer may take: a call, a question in it, and what stands in the way.
const ANSWER_MAX: Duration = Duration::from_millis(1_500);
/// Connections of one client, where that is up to it.
const LINES_MAX: usize = 5;
