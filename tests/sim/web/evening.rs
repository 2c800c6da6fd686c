//! A run over HTTP: clients come and go, over several shards in one thread.
//!
//! When the last client has gone, the server is left alone until nothing of them is left: calls and
//! questions have a time, and so have sessions. Only then is it drained. In some runs it is drained
//! before, in the middle of everything.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::engine::ring::sim::{Fault, World};
use corelane::observe::label::Transport;
use corelane::server::{Origin, Server};

use super::offer;
use super::plan::Plan;
use crate::meeting::editions::Editions;
use crate::tally::Tally;
use crate::web::checks::book::Book;
use crate::web::checks::chronicle::Chronicle;
use crate::web::client::guest::{Facts, Guest};
use crate::web::hostile::relay::Relay;
use crate::world::lane::Lane;
use crate::world::notices::{Notice, Notices};
use crate::world::street::{GOODBYE_MAX, REST_STEP, ROUNDS_MAX, Street, TIME_MAX, address};
use crate::world::watched::Places;

/// How a run went.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Report {
    pub(crate) tally: Tally,
    /// What everybody heard and when, folded: the same for the same run.
    pub(crate) digest: u64,
    /// When nothing was left of anybody, where the server was not drained before.
    pub(crate) rested: Option<Moment>,
}

/// The pieces of a run.
struct Evening<'a> {
    plan: &'a Plan,
    random: Random,
    street: Street,
    notices: Notices,
    /// Behind the shards, which an edit that is not made tells so.
    editions: Editions,
    chronicle: Rc<RefCell<Chronicle>>,
    relay: Rc<RefCell<Relay>>,
    arrivals: VecDeque<(Duration, usize)>,
    guests: Vec<Guest>,
    /// When the last client had gone.
    alone: Option<Moment>,
    rested: Option<Moment>,
    has_to_drain: bool,
    tally: Tally,
}

/// Runs a plan to its end.
///
/// # Errors
///
/// What did not hold.
pub(crate) fn run(plan: &Plan) -> Result<Report, String> {
    let mut evening = Evening::set(plan).map_err(|error| error.to_string())?;
    for _ in 0..ROUNDS_MAX {
        let now = evening.street.world.now();
        let ended = evening.street.turn(now, &mut evening.random)?;
        evening.tally = evening.tally.plus(ended);
        let facts = evening.facts();
        for guest in &mut evening.guests {
            let turned = guest.turn(&evening.street.world, now, facts);
            turned.map_err(|what| format!("{what}, at {now:?}"))?;
        }
        evening.happen(now)?;
        if evening.alone.is_some() && evening.street.has_drained() {
            return evening.close();
        }
        evening.let_time_pass(now)?;
    }
    Err(evening.describe("the run does not end"))
}

impl<'a> Evening<'a> {
    fn set(plan: &'a Plan) -> Result<Self, Box<dyn Error>> {
        let mut random = Random::seeded(plan.seed.wrapping_mul(7) ^ ORDER);
        let world = World::with_faults(random.next_u64(), plan.faults);
        let origin = Origin { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let (made, (edits, asked)) = (Arc::<AtomicU64>::default(), mpsc::channel());
        let server = Server::new(offer::catalog(&made)?).options(plan.options.clone());
        let (seeds, handle) = server.origin(origin).edits_to(edits).seeds(plan.shards)?;
        let places = Places::default();
        let lanes = seeds
            .into_iter()
            .map(|seed| Lane::listen_for(Transport::Http, &world, seed, address(), &places));
        let lanes = lanes.collect::<Result<_, _>>()?;
        let visits = plan.visits.iter().enumerate();
        let mut arrivals: Vec<_> = visits.map(|(index, visit)| (visit.0, index)).collect();
        arrivals.sort_unstable();
        Ok(Self {
            plan,
            random,
            street: Street::new(world, lanes, places, plan.naps),
            notices: Notices::new(handle),
            editions: Editions::new(asked, made),
            chronicle: Rc::new(RefCell::new(Chronicle::new(plan.options.limits.round_max))),
            relay: Rc::new(RefCell::new(Relay::new(plan.breaks))),
            arrivals: arrivals.into(),
            guests: Vec::new(),
            alone: None,
            rested: None,
            has_to_drain: false,
            tally: Tally::default(),
        })
    }

    fn facts(&self) -> Facts {
        let (plan, http) = (self.plan, &self.plan.options.http);
        let may_break = plan.faults.has(Fault::Reset) || plan.faults.has(Fault::FailedAccept);
        Facts {
            ttl: Some(http.session_idle_max).filter(|_| !plan.is_crowded()),
            is_narrow: plan.is_narrow(),
            forgets: plan.forgets(),
            is_crowded: plan.options.limits.requests_in_flight_max < 10,
            may_break,
            drains: self.has_to_drain,
            strict: http.strict,
        }
    }

    /// Lets happen what is due from outside: clients, the drain.
    fn happen(&mut self, now: Moment) -> Result<(), String> {
        if self.street.is_somebody_late(now) {
            return Ok(());
        }
        let elapsed = now.since(Moment::ORIGIN);
        while let Some(&(at, index)) = self.arrivals.front()
            && at <= elapsed
        {
            self.arrivals.pop_front();
            let is_slow = self.plan.faults.has(Fault::SlowReader) && self.random.chance(1, 2);
            let random = Random::seeded(self.random.next_u64());
            let deeds = self.plan.visits[index].1.clone();
            let shared = (Rc::clone(&self.chronicle), Rc::clone(&self.relay));
            self.guests.push(Guest::new(index as u32, deeds, is_slow, random, shared, now));
        }
        self.editions.turn(now, &mut self.random);
        self.chronicle.borrow_mut().made = self.editions.made();
        if self.arrivals.is_empty() && self.guests.iter().all(Guest::is_over) {
            self.rest(now)?;
        }
        let is_due = self.plan.drain.is_some_and(|at| at <= elapsed) || self.rested.is_some();
        if is_due && !self.has_to_drain {
            self.has_to_drain = true;
            self.notices.say_at_once(Notice::Drain);
        }
        self.notices.pass_on();
        Ok(())
    }

    /// Nobody is there: nothing may be left of anybody after a while.
    fn rest(&mut self, now: Moment) -> Result<(), String> {
        let alone = *self.alone.get_or_insert(now);
        let options = &self.plan.options;
        let left_max = options.http.session_idle_max + options.limits.request_max + GOODBYE_MAX;
        let left_max = left_max + options.limits.task_ttl_max + options.limits.question_max;
        if self.has_to_drain {
            return Ok(());
        }
        if self.street.holdings() == 0 {
            self.rested.get_or_insert(now);
        } else if now > alone.after(left_max) {
            return Err(self.describe("something is left behind"));
        }
        Ok(())
    }

    /// Moves time on where nobody has anything left to do now, or where somebody is late.
    fn let_time_pass(&mut self, now: Moment) -> Result<(), String> {
        let next = self.next(now);
        let has_moved = self.street.let_time_pass(now, next).map_err(|what| self.describe(what))?;
        if has_moved && now.since(Moment::ORIGIN) > TIME_MAX {
            return Err(self.describe("the run takes too long"));
        }
        Ok(())
    }

    /// When something is due that the world does not know of.
    fn next(&self, now: Moment) -> Option<Moment> {
        let arrival = self.arrivals.front().map(|&(at, _)| at);
        let drain = self.plan.drain.filter(|_| !self.has_to_drain);
        let outside = [arrival, drain].into_iter().flatten().map(|at| Moment::ORIGIN.after(at));
        let outside = outside.chain(self.editions.next());
        let outside = outside.filter(|_| !self.street.is_somebody_late(now));
        let rest = self.alone.filter(|_| !self.has_to_drain).map(|_| now.after(REST_STEP));
        let guests = self.guests.iter().filter_map(Guest::next);
        outside.chain(rest).chain(guests).min()
    }

    /// Checks what holds over the whole run.
    fn close(mut self) -> Result<Report, String> {
        self.street.settle()?;
        self.chronicle.borrow().commons.close(self.editions.made())?;
        self.check_tasks()?;
        self.tally.editions += self.editions.made();
        self.tally = self.tally.plus(self.chronicle.borrow().commons.tally);
        let mut digest = 0_u64;
        for guest in &self.guests {
            self.tally = self.tally.plus(guest.tally());
            digest = digest.rotate_left(7) ^ guest.digest();
        }
        Ok(Report { tally: self.tally, digest, rested: self.rested })
    }

    /// Nobody was told of a task that began in another session.
    fn check_tasks(&self) -> Result<(), String> {
        let books: Vec<&Book> = self.guests.iter().flat_map(Guest::books).collect();
        for (place, book) in books.iter().enumerate() {
            let others = books.iter().enumerate().filter(|(other, _)| *other != place);
            for (_, other) in others {
                if let Some(task) = book.told.intersection(&other.begun).next() {
                    return Err(format!("{} was told of task {task} of {}", book.id, other.id));
                }
            }
        }
        Ok(())
    }

    fn describe(&self, what: &str) -> String {
        let here = self.guests.iter().filter(|guest| !guest.is_over());
        self.street.describe(what, here.map(Guest::describe))
    }
}

/// Keeps the order of the shards apart from other draws of the same seed.
const ORDER: u64 = 0x0045_5645_4E49;
