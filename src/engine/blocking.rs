//! shim
/// shim
#[derive(Debug)]
pub struct BlockingPool(crossbeam::channel::Sender<Box<dyn FnOnce() + Send>>);
impl BlockingPool {
    /// shim
    pub fn new(threads: usize, queue: usize) -> std::io::Result<Self> {
        let (s, r) = crossbeam::channel::bounded::<Box<dyn FnOnce() + Send>>(queue);
        for _ in 0..threads {
            let r = r.clone();
            std::thread::spawn(move || {
                for job in r {
                    job();
                }
            });
        }
        Ok(Self(s))
    }
    /// shim
    pub fn run(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), ()> {
        self.0.try_send(job).map_err(|_| ())
    }
}
