//! The floors: what the machine does when a server does nothing but say its [`Words`].
//!
//! The ring floor stands on the very backend that Corelane uses; the tokio floor is what the common
//! alternative costs.

use std::io;
use std::sync::Arc;

use corelane::engine::clock::Clock;
use corelane::engine::ring::RingOptions;
use corelane::engine::ring::poll::PollRing;
use corelane::engine::ring::uring::UringRing;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::answering::{self, listen};
use crate::words::Words;

const TOKIO_BUFFER_BYTES: usize = 4096;

/// Serves until it is killed.
pub(crate) fn serve(floor: &str, words: Words) -> io::Result<()> {
    let answer = |arrived: &[u8], begun: &mut Vec<u8>, out: &mut Vec<u8>| {
        words.answer(arrived, begun, out);
    };
    match floor {
        "ring" => {
            let ring = UringRing::new(&RingOptions::default(), Clock::start())?;
            answering::serve(ring, listen()?, answer)
        }
        "poll" => {
            let ring = PollRing::new(&RingOptions::default(), Clock::start())?;
            answering::serve(ring, listen()?, answer)
        }
        "tokio" => {
            let words = Arc::new(words);
            serve_tasks(move |stream| say(stream, Arc::clone(&words)))
        }
        other => Err(io::Error::other(format!("there is no floor named {other}"))),
    }
}

/// One task of tokio a connection, all of them on one thread; serves until it is killed.
pub(crate) fn serve_tasks<F>(task: impl Fn(TcpStream) -> F) -> io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = listen()?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            runtime.spawn(task(stream));
        }
    })
}

/// Says its words on one connection until it ends.
async fn say(mut stream: TcpStream, words: Arc<Words>) {
    let mut buffer = vec![0; TOKIO_BUFFER_BYTES];
    let (mut begun, mut answers) = (Vec::new(), Vec::new());
    while let Ok(length) = stream.read(&mut buffer).await {
        answers.clear();
        words.answer(&buffer[..length], &mut begun, &mut answers);
        if length == 0 || stream.write_all(&answers).await.is_err() {
            return;
        }
    }
}
