//! The common alternative over WebSocket: tokio-tungstenite, saying back every message.
//!
//! It serves as its own example does, which is its best at any depth: one task a connection, all of
//! them on one thread, and what came together leaves together. As it comes it reads into 128 KiB,
//! which it clears for every read; with a buffer that fits the messages it is another server, so
//! it is measured with both.

use std::io;

use futures_util::StreamExt;
use tokio_tungstenite::accept_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::echo;

/// Serves until it is killed, reading into so many bytes; `None` leaves that to the library.
pub(crate) fn serve(read_bytes: Option<usize>) -> io::Result<()> {
    let config = WebSocketConfig::default();
    let config = read_bytes.map_or(config, |bytes| config.read_buffer_size(bytes));
    echo::serve_tasks(move |stream| async move {
        if let Ok(stream) = accept_async_with_config(stream, Some(config)).await {
            let (write, read) = stream.split();
            // A connection that ends is nobody's error here: the load looks for that.
            read.forward(write).await.unwrap_or(());
        }
    })
}
