//! The floors: minimal servers of a [`FloorKind`], as a lower bound of the cost.
//!
//! The ring and poll floors use the ring backends of Corelane; the tokio floor is the cost of the
//! common alternative.

use std::io;
use std::sync::Arc;

use corelane_bench_support::ring_server::{self, listen};
use corelane_engine::clock::Clock;
use corelane_engine::ring::RingOptions;
use corelane_engine::ring::poll::PollRing;
use corelane_engine::ring::uring::UringRing;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::floor_kind::FloorKind;

const TOKIO_BUFFER_BYTES: usize = 4096;

/// Serves until it is killed.
pub(crate) fn serve(floor: &str, kind: FloorKind) -> io::Result<()> {
    let respond = |arrived: &[u8], partial: &mut Vec<u8>, out: &mut Vec<u8>| {
        kind.respond(arrived, partial, out);
    };
    match floor {
        "ring" => {
            let ring = UringRing::new(&RingOptions::default(), Clock::start())?;
            ring_server::serve(ring, listen()?, respond)
        }
        "poll" => {
            let ring = PollRing::new(&RingOptions::default(), Clock::start())?;
            ring_server::serve(ring, listen()?, respond)
        }
        "tokio" => {
            let kind = Arc::new(kind);
            serve_tasks(move |stream| serve_connection(stream, Arc::clone(&kind)))
        }
        other => {
            Err(io::Error::other(format!("unknown floor `{other}`: expected ring, poll or tokio")))
        }
    }
}

/// Runs one tokio task per connection on one thread; serves until it is killed.
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

/// Responds on one connection until it ends.
async fn serve_connection(mut stream: TcpStream, kind: Arc<FloorKind>) {
    let mut buffer = vec![0; TOKIO_BUFFER_BYTES];
    let (mut partial, mut output) = (Vec::new(), Vec::new());
    while let Ok(length) = stream.read(&mut buffer).await {
        output.clear();
        kind.respond(&buffer[..length], &mut partial, &mut output);
        if length == 0 || stream.write_all(&output).await.is_err() {
            return;
        }
    }
}
