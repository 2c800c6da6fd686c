//! The thread that has the children: it starts them, hears them and sees to their ends.
//!
//! A worker must not wait for a start, and what it has pinned itself to is not for its children,
//! who would inherit it. So one thread beside each worker does both, made before the worker is
//! pinned.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use corelane::engine::clock::Clock;
use corelane::engine::ring::Waker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::child::{Born, Child, Step};
use super::{News, Program};
use crate::measure::group::Group;

/// How often a child that has to end is looked at.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// What the thread is told.
enum Order {
    /// Wake this ring when there are news.
    Tell(Waker),
    /// Start a child of this number.
    Start(u32),
    /// End the one of this number; its pipes have been closed.
    Stop(u32),
}

/// The children of one worker. Dropping it ends them all and waits for that, a few seconds at most.
#[derive(Debug)]
pub struct Keeper {
    orders: Option<Sender<Order>>,
    /// Each byte ends a wait of the thread; so does its end.
    bell: Option<PipeWriter>,
    news: Option<Receiver<News>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// A keeper of children that run `program` and are members of `group`.
    ///
    /// # Errors
    ///
    /// Where the system has no pipe or no thread for it.
    pub fn new(program: Program, group: Arc<Group>) -> io::Result<Self> {
        let (orders, ordered) = channel();
        let (tell, news) = channel();
        let (heard, bell) = io::pipe()?;
        let mut nursery = Nursery {
            program,
            group,
            clock: Clock::start(),
            orders: ordered,
            bell: heard,
            news: tell,
            waker: None,
            children: Vec::new(),
            is_over: false,
        };
        let thread = thread::Builder::new().name("load-children".into());
        let thread = Some(thread.spawn(move || nursery.work())?);
        Ok(Self { orders: Some(orders), bell: Some(bell), news: Some(news), thread })
    }

    /// Has a ring woken whenever there are news.
    pub fn tell(&self, waker: Waker) {
        self.order(Order::Tell(waker));
    }

    /// Starts a child of this number; [`News::Started`] or [`News::Failed`] follows.
    pub fn start(&self, lane: u32) {
        self.order(Order::Start(lane));
    }

    /// Ends the child of this number, whose pipes the caller has closed; [`News::Ended`] follows.
    pub fn stop(&self, lane: u32) {
        self.order(Order::Stop(lane));
    }

    /// The next news, where there are any.
    pub fn news(&self) -> Option<News> {
        self.news.as_ref()?.try_recv().ok()
    }

    fn order(&self, order: Order) {
        // Without its thread there are no children, and nobody to hear it.
        if let (Some(orders), Some(mut bell)) = (&self.orders, self.bell.as_ref()) {
            drop(orders.send(order));
            drop(bell.write(&[0]));
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
        self.bell = None;
        // News that nobody has taken hold pipes of children, who would wait for their end.
        self.news = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// The thread's side.
struct Nursery {
    program: Program,
    group: Arc<Group>,
    clock: Clock,
    orders: Receiver<Order>,
    bell: PipeReader,
    news: Sender<News>,
    waker: Option<Waker>,
    children: Vec<Child>,
    /// The keeper has gone: all of them have to end.
    is_over: bool,
}

impl Nursery {
    fn work(&mut self) {
        loop {
            self.take_orders();
            self.advance();
            if self.is_over && self.children.is_empty() {
                return;
            }
            self.wait();
        }
    }

    fn take_orders(&mut self) {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Tell(waker)) => self.waker = Some(waker),
                Ok(Order::Start(lane)) => self.start(lane),
                Ok(Order::Stop(lane)) => self.part(|child| child.lane == lane),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    if !std::mem::replace(&mut self.is_over, true) {
                        self.part(|_| true);
                    }
                    return;
                }
            }
        }
    }

    fn start(&mut self, lane: u32) {
        let news = match Child::start(lane, &self.program) {
            Ok(Born { child, input, output }) => {
                self.group.join(child.pid());
                self.children.push(child);
                News::Started { lane, input, output }
            }
            Err(why) => News::Failed { lane, why },
        };
        self.spread(news);
    }

    fn part(&mut self, is_meant: impl Fn(&Child) -> bool) {
        let now = self.clock.now();
        for child in self.children.iter_mut().filter(|child| is_meant(child)) {
            child.part(now);
        }
    }

    /// Goes on with the ends that are under way.
    fn advance(&mut self) {
        let (now, mut census) = (self.clock.now(), None);
        for place in (0..self.children.len()).rev() {
            let step = self.children[place].advance(now, &self.group, &mut census);
            let Some(step) = step else { continue };
            let mut child = self.children.swap_remove(place);
            match step {
                Step::Asked => {}
                Step::Terminated => self.group.note_terminated(),
                Step::Killed => self.group.note_killed(),
            }
            let why = child.last_words();
            if let Some(words) = child.words() {
                self.group.note_words(words);
            }
            self.spread(News::Ended { lane: child.lane, why });
        }
    }

    fn spread(&self, news: News) {
        // A worker that has gone wants to know nothing.
        drop(self.news.send(news));
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    /// Waits for an order, for something to read, or for the next look at those that have to end.
    fn wait(&mut self) {
        let mut fds = Vec::with_capacity(2 * self.children.len() + 1);
        if !self.is_over {
            fds.push(PollFd::new(&self.bell, PollFlags::IN));
        }
        let ends = |child: &Child| [child.errors().is_some(), child.farewell().is_some()];
        let open: Vec<[bool; 2]> = self.children.iter().map(ends).collect();
        for child in &self.children {
            let both = [child.errors(), child.farewell()].into_iter().flatten();
            fds.extend(both.map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN)));
        }
        let is_pressing = self.children.iter().any(Child::is_parting);
        let timeout = is_pressing.then_some(&TICK);
        if poll(&mut fds, timeout).is_err() {
            // A signal came: the next look finds what is ready.
            return;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        if !self.is_over && ready.next() == Some(true) {
            // How often it rang does not matter, and its end is seen at the orders.
            drop(self.bell.read(&mut [0; 256]));
        }
        for (child, [errors, farewell]) in self.children.iter_mut().zip(open) {
            if errors && ready.next() == Some(true) {
                child.hear_errors();
            }
            if farewell && ready.next() == Some(true) {
                child.hear_farewell();
            }
        }
    }
}
