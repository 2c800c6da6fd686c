//! A minimal shard with messages, futures, deadlines and one socket, for any executor.

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use corelane_engine::executor::thread_group::{self, ThreadGroup, ThreadHandle};
use corelane_engine::executor::{Executor, LocalFuture, NativeExecutor, Task, native};
use corelane_engine::mesh::{Endpoint, Inbox, MeshOptions, Sender, ShardId, build_mesh};
use corelane_engine::placement::Placement;
use corelane_engine::ring::poll::PollRing;
use corelane_engine::ring::{
    Completion, Operation, ReceiveBuffer, Registered, Ring, RingOptions, Source,
};
use corelane_engine::shard_loop::{Driver, ShardLoop};
use crossbeam::channel::{self, Receiver, unbounded};

/// A message to the shard under test.
pub(crate) enum ShardCommand {
    /// Spawns a future.
    Spawn(Box<dyn FnOnce() -> LocalFuture + Send>),
    /// Drops the tasks of all futures.
    Cancel,
    /// Sets a deadline; the shard reports when it has expired.
    SetDeadline(Duration),
    /// Reports the number of live futures.
    CountFutures,
    /// Ends the shard loop.
    End,
}

/// A report of the shard.
#[derive(Debug, PartialEq)]
pub(crate) enum Report {
    DeadlineExpired,
    LiveFutures(usize),
    Received(usize),
}

/// The driver of the shard under test.
pub(crate) struct TestDriver {
    inbox: Inbox<ShardCommand>,
    executor: Rc<dyn Executor>,
    tasks: Vec<Task>,
    next_deadline: Option<Instant>,
    reports: channel::Sender<Report>,
    is_ending: bool,
    commands: Vec<ShardCommand>,
}

impl<R: Ring> Driver<R> for TestDriver {
    fn handle_completion(&mut self, ring: &mut R, completion: Completion, _now: Instant) {
        if let Completion::Received { buffer, .. } = completion {
            let ReceiveBuffer { len: length, .. } = buffer;
            ring.release(buffer);
            self.report(Report::Received(length as usize));
        }
    }

    fn expire_timers(&mut self, _ring: &mut R, _now: Instant) {
        self.next_deadline = None;
        self.report(Report::DeadlineExpired);
    }

    fn receive_messages(&mut self, _ring: &mut R, now: Instant) -> bool {
        let mut messages = std::mem::take(&mut self.commands);
        let more = self.inbox.receive(&mut messages, 16);
        for message in messages.drain(..) {
            match message {
                ShardCommand::Spawn(make) => self.tasks.push(self.executor.spawn(make())),
                ShardCommand::Cancel => self.tasks.clear(),
                ShardCommand::SetDeadline(span) => self.next_deadline = Some(now.after(span)),
                ShardCommand::CountFutures => {
                    self.report(Report::LiveFutures(self.executor.live_futures()));
                }
                ShardCommand::End => self.is_ending = true,
            }
        }
        self.commands = messages;
        more
    }

    fn poll_futures(&mut self, _ring: &mut R, _now: Instant) -> bool {
        self.executor.poll_futures(16)
    }

    fn flush(&mut self, ring: &mut R, _now: Instant) {
        self.inbox.wake_targets(|waker| ring.wake(waker));
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline
    }

    fn prepare_park(&mut self) -> bool {
        self.inbox.prepare_park() && self.executor.prepare_park()
    }

    fn is_finished(&self) -> bool {
        self.is_ending
    }
}

impl TestDriver {
    fn report(&self, report: Report) {
        self.reports.send(report).expect("test receives reports");
    }
}

/// Everything from which the shard is built on its thread.
pub(crate) struct ShardParts {
    endpoint: Endpoint<ShardCommand>,
    stream: UnixStream,
    reports: channel::Sender<Report>,
}

impl ShardParts {
    /// Builds the shard over `ring`.
    pub(crate) fn build<R: Ring>(
        self,
        mut ring: R,
        host: Rc<dyn Executor>,
    ) -> io::Result<ShardLoop<R, TestDriver>> {
        let inbox = self.endpoint.open(ring.waker());
        if let Registered::Socket(socket) = ring.register(Source::Stream(self.stream.into()))? {
            ring.submit(Operation::Receive(socket));
        }
        let driver = TestDriver {
            inbox,
            executor: host,
            tasks: Vec::new(),
            next_deadline: None,
            reports: self.reports,
            is_ending: false,
            commands: Vec::new(),
        };
        Ok(ShardLoop::new(ring, driver))
    }
}

/// An executor and a ring backend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExecutorKind {
    /// Native executor, poll ring.
    Poll,
    /// Native executor, `io_uring`.
    #[cfg(target_os = "linux")]
    Uring,
    /// Glommio executor that only runs the shard.
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    Glommio,
    /// Glommio executor that runs the shard as one of its tasks.
    #[cfg(all(target_os = "linux", feature = "glommio"))]
    GlommioShared,
}

impl ExecutorKind {
    /// Returns every kind that this system supports: only `Poll` without `io_uring`.
    pub(crate) fn all() -> Vec<Self> {
        let mut kinds = vec![Self::Poll];
        #[cfg(target_os = "linux")]
        if corelane_engine::ring::uring::UringRing::new(&ring_options(), Clock::start()).is_ok() {
            kinds.push(Self::Uring);
            #[cfg(feature = "glommio")]
            kinds.extend([Self::Glommio, Self::GlommioShared]);
        }
        kinds
    }

    fn run_shard(self, shard: ShardParts) -> io::Result<()> {
        match self {
            Self::Poll => run_native(shard, PollRing::new(&ring_options(), Clock::start())?),
            #[cfg(target_os = "linux")]
            Self::Uring => run_native(shard, uring()?),
            #[cfg(all(target_os = "linux", feature = "glommio"))]
            Self::Glommio | Self::GlommioShared => {
                use corelane_engine::executor::glommio;
                glommio::enter_executor(|host| async move {
                    let mut shard = shard.build(uring()?, host.clone())?;
                    match self {
                        Self::Glommio => glommio::run_shard(&mut shard, &host).await,
                        _ => glommio::run_shard_cooperatively(&mut shard, &host).await,
                    }
                })
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn uring() -> io::Result<corelane_engine::ring::uring::UringRing> {
    corelane_engine::ring::uring::UringRing::new(&ring_options(), Clock::start())
}

fn run_native<R: Ring>(shard: ShardParts, ring: R) -> io::Result<()> {
    let host: Rc<dyn Executor> = Rc::new(NativeExecutor::new(ring.waker()));
    native::run_shard(&mut shard.build(ring, host)?);
    Ok(())
}

fn ring_options() -> RingOptions {
    RingOptions {
        sockets_max: 8,
        submissions_max: 64,
        completions_max: 128,
        receive_buffers: 8,
        ..RingOptions::default()
    }
}

/// A running shard with its message sender, its socket peer and its reports.
pub(crate) struct TestShard {
    threads: ThreadGroup<()>,
    sender: Sender<ShardCommand>,
    peer: UnixStream,
    reports: Receiver<Report>,
}

impl TestShard {
    /// Starts one shard.
    pub(crate) fn start(kind: ExecutorKind) -> Self {
        let (endpoints, sender) = build_mesh(1, &MeshOptions::default());
        let (report_tx, reports) = unbounded();
        let (stream, peer) = UnixStream::pair().expect("socket pair");
        let endpoint = endpoints.into_iter().next().expect("mesh of one shard has one endpoint");
        let shards = vec![ShardParts { endpoint, stream, reports: report_tx }];
        let placement = Placement::choose(None, Some(1)).expect("one shard fits on a CPU");
        let run = move |shard, thread: &ThreadHandle<()>| {
            assert!(thread.report_ready(String::new()));
            kind.run_shard(shard)
        };
        let threads = thread_group::spawn_threads("test-shard", &placement, shards, run, |_| {});
        Self { threads: threads.expect("shard starts"), sender, peer, reports }
    }

    /// Sends a message to the shard.
    pub(crate) fn send_command(&self, message: ShardCommand) {
        assert!(self.sender.try_send(ShardId(0), message).is_ok(), "the inbox is full");
    }

    /// Spawns a future on the shard.
    pub(crate) fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        make: impl FnOnce() -> F + Send + 'static,
    ) {
        self.send_command(ShardCommand::Spawn(Box::new(|| Box::pin(make()))));
    }

    /// Sends bytes to the shard's socket.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.peer.write_all(bytes).expect("shard reads");
    }

    /// Receives the next report.
    pub(crate) fn receive_report(&self) -> Report {
        self.reports.recv().expect("shard sends a report")
    }

    /// Ends the shard and waits for its thread.
    pub(crate) fn stop(mut self) {
        self.send_command(ShardCommand::End);
        self.threads.join().expect("shard does not panic");
    }
}

/// A receiver that a future awaits for values of another thread.
pub(crate) struct WakeReceiver<T> {
    values: Receiver<T>,
    wakers: channel::Sender<std::task::Waker>,
}

/// The sender of the other thread.
pub(crate) struct WakeSender<T> {
    values: channel::Sender<T>,
    wakers: Receiver<std::task::Waker>,
}

/// Creates a channel from another thread to a future.
pub(crate) fn wake_channel<T>() -> (WakeSender<T>, WakeReceiver<T>) {
    let ((word, words), (asks, asked)) = (unbounded(), unbounded());
    (WakeSender { values: word, wakers: asked }, WakeReceiver { values: words, wakers: asks })
}

impl<T> WakeSender<T> {
    /// Waits until the future awaits the value, then sends it.
    pub(crate) fn send(&self, value: T) {
        let waker = self.wakers.recv().expect("future awaits the value");
        self.values.send(value).expect("future awaits the value");
        waker.wake();
    }
}

impl<T> WakeReceiver<T> {
    /// Waits for the next value.
    pub(crate) async fn receive(&self) -> T {
        let is_waker_sent = RefCell::new(false);
        std::future::poll_fn(|cx| {
            if let Ok(value) = self.values.try_recv() {
                return std::task::Poll::Ready(value);
            }
            if !is_waker_sent.replace(true) {
                self.wakers.send(cx.waker().clone()).expect("sender waits for the waker");
            }
            std::task::Poll::Pending
        })
        .await
    }
}
