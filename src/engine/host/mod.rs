//! shim
use std::future::Future;
use std::pin::Pin;
/// shim
pub type Task = async_task::Task<()>;
/// shim
pub trait Host {
    /// shim
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()>>>) -> Task;
    /// shim
    fn run_ready(&self, budget: usize) -> bool;
    /// shim
    fn alive(&self) -> usize;
}
/// shim
#[derive(Debug)]
pub struct Native {
    queue: std::sync::Arc<crossbeam::queue::SegQueue<async_task::Runnable>>,
    waker: crate::engine::ring::Waker,
}
impl Native {
    /// shim
    pub fn new(waker: crate::engine::ring::Waker) -> Self {
        Self { queue: Default::default(), waker }
    }
}
impl Host for Native {
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()>>>) -> Task {
        let queue = self.queue.clone();
        let waker = self.waker.clone();
        let (runnable, task) = async_task::spawn_local(future, move |r| {
            queue.push(r);
            waker.wake();
        });
        runnable.schedule();
        task
    }
    fn run_ready(&self, budget: usize) -> bool {
        for _ in 0..budget {
            match self.queue.pop() {
                Some(r) => {
                    r.run();
                }
                None => return false,
            }
        }
        !self.queue.is_empty()
    }
    fn alive(&self) -> usize {
        0
    }
}
