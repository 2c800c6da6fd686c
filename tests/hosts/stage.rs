//! A shard with nothing but letters, futures, deadlines and one stream, to be run by any host.

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::clock::Clock;
use corelane::engine::host::crew::{self, Crew};
use corelane::engine::host::{Host, LocalFuture, Native, Task, native};
use corelane::engine::mesh::{Mailbox, MeshOptions, Post, Seat, ShardId, mesh};
use corelane::engine::placement::Placement;
use corelane::engine::ring::poll::PollRing;
use corelane::engine::ring::{Completion, Lease, Operation, Registered, Ring, RingOptions, Source};
use corelane::engine::shard::{Driver, Shard};
use crossbeam::channel::{Receiver, Sender, unbounded};

/// What the shard under test is told to do.
pub(crate) enum Letter {
    /// Run a future.
    Spawn(Box<dyn FnOnce() -> LocalFuture + Send>),
    /// Drop the tasks of all futures.
    Cancel,
    /// Say so when this span has passed.
    Alarm(Duration),
    /// Say how many futures are alive.
    Count,
    /// End.
    End,
}

/// What the shard says.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    Alarmed,
    Alive(usize),
    Received(usize),
}

/// The shard's business.
pub(crate) struct Stage {
    mailbox: Mailbox<Letter>,
    host: Rc<dyn Host>,
    tasks: Vec<Task>,
    alarm: Option<Moment>,
    says: Sender<Said>,
    ends: bool,
    letters: Vec<Letter>,
}

impl<R: Ring> Driver<R> for Stage {
    fn arrive(&mut self, ring: &mut R, completion: Completion, _now: Moment) {
        if let Completion::Received { lease, .. } = completion {
            let Lease { length, .. } = lease;
            ring.release(lease);
            self.say(Said::Received(length as usize));
        }
    }

    fn expire(&mut self, _ring: &mut R, _now: Moment) {
        self.alarm = None;
        self.say(Said::Alarmed);
    }

    fn take_letters(&mut self, _ring: &mut R, now: Moment) -> bool {
        let mut letters = std::mem::take(&mut self.letters);
        let more = self.mailbox.receive(&mut letters, 16);
        for letter in letters.drain(..) {
            match letter {
                Letter::Spawn(make) => self.tasks.push(self.host.spawn(make())),
                Letter::Cancel => self.tasks.clear(),
                Letter::Alarm(span) => self.alarm = Some(now.after(span)),
                Letter::Count => self.say(Said::Alive(self.host.alive())),
                Letter::End => self.ends = true,
            }
        }
        self.letters = letters;
        more
    }

    fn run_ready(&mut self, _ring: &mut R, _now: Moment) -> bool {
        self.host.run_ready(16)
    }

    fn flush(&mut self, ring: &mut R, _now: Moment) {
        self.mailbox.wake_targets(|waker| ring.wake(waker));
    }

    fn deadline(&self) -> Option<Moment> {
        self.alarm
    }

    fn prepare_park(&mut self) -> bool {
        self.mailbox.prepare_park() && self.host.prepare_park()
    }

    fn is_finished(&self) -> bool {
        self.ends
    }
}

impl Stage {
    fn say(&self, said: Said) {
        self.says.send(said).expect("the test listens to what is said");
    }
}

/// What the thread of a shard under test is made from.
pub(crate) struct Load {
    seat: Seat<Letter>,
    stream: UnixStream,
    says: Sender<Said>,
}

impl Load {
    /// Builds the shard over `ring`.
    pub(crate) fn build<R: Ring>(
        self,
        mut ring: R,
        host: Rc<dyn Host>,
    ) -> io::Result<Shard<R, Stage>> {
        let mailbox = self.seat.open(ring.waker());
        if let Registered::Socket(socket) = ring.register(Source::Stream(self.stream.into()))? {
            ring.submit(Operation::Receive(socket));
        }
        let stage = Stage {
            mailbox,
            host,
            tasks: Vec::new(),
            alarm: None,
            says: self.says,
            ends: false,
            letters: Vec::new(),
        };
        Ok(Shard::new(ring, stage))
    }
}

/// Which host runs the shard, over which ring.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Native over readiness.
    Poll,
    /// Native over `io_uring`.
    #[cfg(target_os = "linux")]
    Uring,
    /// Glommio, the shard's own thread.
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    Glommio,
    /// Glommio as a guest among other tasks.
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    GlommioHere,
}

impl Kind {
    /// Every kind that this machine can run; a kernel without `io_uring` runs the first.
    pub(crate) fn all() -> Vec<Self> {
        let mut kinds = vec![Self::Poll];
        #[cfg(target_os = "linux")]
        if corelane::engine::ring::uring::UringRing::new(&sizes(), Clock::start()).is_ok() {
            kinds.push(Self::Uring);
            #[cfg(feature = "glommio")]
            kinds.extend([Self::Glommio, Self::GlommioHere]);
        }
        kinds
    }

    fn live(self, load: Load) -> io::Result<()> {
        match self {
            Self::Poll => live_natively(load, PollRing::new(&sizes(), Clock::start())?),
            #[cfg(target_os = "linux")]
            Self::Uring => live_natively(load, uring()?),
            #[cfg(all(target_os = "linux", feature = "glommio"))]
            Self::Glommio | Self::GlommioHere => {
                use corelane::engine::host::glommio;
                glommio::enter(|host| async move {
                    let mut shard = load.build(uring()?, host.clone())?;
                    match self {
                        Self::Glommio => glommio::run(&mut shard, &host).await,
                        _ => glommio::run_here(&mut shard, &host).await,
                    }
                })
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn uring() -> io::Result<corelane::engine::ring::uring::UringRing> {
    corelane::engine::ring::uring::UringRing::new(&sizes(), Clock::start())
}

fn live_natively<R: Ring>(load: Load, ring: R) -> io::Result<()> {
    let host: Rc<dyn Host> = Rc::new(Native::new(ring.waker()));
    native::run(&mut load.build(ring, host)?);
    Ok(())
}

fn sizes() -> RingOptions {
    RingOptions {
        sockets_max: 8,
        submissions_max: 64,
        completions_max: 128,
        receive_buffers: 8,
        ..RingOptions::default()
    }
}

/// A running shard and everything that reaches it.
pub(crate) struct Running {
    crew: Crew<()>,
    post: Post<Letter>,
    peer: UnixStream,
    said: Receiver<Said>,
}

impl Running {
    /// Starts one shard.
    pub(crate) fn start(kind: Kind) -> Self {
        let (seats, post) = mesh(1, &MeshOptions::default());
        let (says, said) = unbounded();
        let (stream, peer) = UnixStream::pair().expect("the system gives a pair of sockets");
        let seat = seats.into_iter().next().expect("a mesh of one shard has a seat");
        let loads = vec![Load { seat, stream, says }];
        let placement = Placement::choose(None, Some(1)).expect("one shard fits on some cpu");
        let crew = crew::launch("stage", &placement, loads, move |load, berth| {
            assert!(berth.ready(String::new()));
            kind.live(load)
        });
        Self { crew: crew.expect("the shard starts"), post, peer, said }
    }

    /// Leaves a letter.
    pub(crate) fn tell(&self, letter: Letter) {
        assert!(self.post.try_send(ShardId(0), letter).is_ok(), "the inbox is full");
    }

    /// Has the shard run a future.
    pub(crate) fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        make: impl FnOnce() -> F + Send + 'static,
    ) {
        self.tell(Letter::Spawn(Box::new(|| Box::pin(make()))));
    }

    /// Sends bytes over the shard's stream.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.peer.write_all(bytes).expect("the shard reads");
    }

    /// What the shard says next.
    pub(crate) fn hear(&self) -> Said {
        self.said.recv().expect("the shard says something")
    }

    /// Ends the shard.
    pub(crate) fn end(self) {
        self.tell(Letter::End);
        self.crew.join(|_| {}).expect("the shard ends in order");
    }
}

/// A future's way to wait for a word from another thread.
pub(crate) struct Word<T> {
    word: Receiver<T>,
    asks: Sender<std::task::Waker>,
}

/// The other thread's end.
pub(crate) struct Speaker<T> {
    word: Sender<T>,
    asked: Receiver<std::task::Waker>,
}

/// A word that is spoken on one thread and awaited on another.
pub(crate) fn word<T>() -> (Speaker<T>, Word<T>) {
    let ((word, words), (asks, asked)) = (unbounded(), unbounded());
    (Speaker { word, asked }, Word { word: words, asks })
}

impl<T> Speaker<T> {
    /// Waits until somebody awaits the word, then says it.
    pub(crate) fn speak(&self, word: T) {
        let waker = self.asked.recv().expect("the future asks for its word");
        self.word.send(word).expect("the future waits for its word");
        waker.wake();
    }
}

impl<T> Word<T> {
    /// Waits for the word.
    pub(crate) async fn await_it(&self) -> T {
        let asked = RefCell::new(false);
        std::future::poll_fn(|context| {
            if let Ok(word) = self.word.try_recv() {
                return std::task::Poll::Ready(word);
            }
            if !asked.replace(true) {
                self.asks.send(context.waker().clone()).expect("the test waits for the question");
            }
            std::task::Poll::Pending
        })
        .await
    }
}
