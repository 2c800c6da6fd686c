//! An echo server on tokio-tungstenite, the common alternative over WebSocket.
//!
//! It is written like its own example, which is its fastest form at any depth: one task per
//! connection on one thread, and output is batched. The default read buffer of 128 KiB is cleared
//! for each read, so it is also measured with a buffer that fits the messages.

use std::io;

use futures_util::StreamExt;
use tokio_tungstenite::accept_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::echo;

/// Serves until it is killed; `None` means the default size of the read buffer.
pub(crate) fn serve(read_bytes: Option<usize>) -> io::Result<()> {
    let config = WebSocketConfig::default();
    let config = read_bytes.map_or(config, |bytes| config.read_buffer_size(bytes));
    echo::serve_tasks(move |stream| async move {
        if let Ok(stream) = accept_async_with_config(stream, Some(config)).await {
            let (write, read) = stream.split();
            // The load detects a closed connection.
            read.forward(write).await.unwrap_or(());
        }
    })
}
