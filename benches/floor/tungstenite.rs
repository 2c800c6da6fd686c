//! The common alternative over WebSocket: tokio-tungstenite, saying back every message of text.
//!
//! It serves as it does best: one task a connection on one thread, and everything that has come is
//! answered before anything is written, so that messages that came together leave together.

use std::io;

use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::echo;

/// Serves until it is killed.
pub(crate) fn serve() -> io::Result<()> {
    echo::serve_tasks(|stream| async {
        if let Ok(mut stream) = tokio_tungstenite::accept_async(stream).await {
            // A connection that ends is nobody's error here: the load looks for that.
            say_back(&mut stream).await.unwrap_or(());
        }
    })
}

async fn say_back(stream: &mut WebSocketStream<TcpStream>) -> Result<(), Error> {
    while let Some(message) = stream.next().await {
        feed(stream, message?).await?;
        while let Some(Some(message)) = stream.next().now_or_never() {
            feed(stream, message?).await?;
        }
        stream.flush().await?;
    }
    Ok(())
}

async fn feed(stream: &mut WebSocketStream<TcpStream>, message: Message) -> Result<(), Error> {
    if message.is_text() { stream.feed(message).await } else { Ok(()) }
}
