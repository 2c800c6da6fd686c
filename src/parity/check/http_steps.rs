//! Steps of checks over HTTP.

use crate::peer::Peer;
use crate::suite::{CheckError, Context};
use crate::wire::exchange::{Exchange, Head, SseEvent};
use crate::wire::http::HttpChannel;

pub fn channel<'a>(peer: &'a mut Peer<'_>) -> Result<&'a mut HttpChannel, CheckError> {
    let channel = peer.channel().http();
    channel.ok_or_else(|| CheckError::Skipped("only for HTTP".to_owned()))
}

/// Makes a request that is no message, and returns the exchange with its response.
pub fn fetch(
    context: &Context<'_>,
    peer: &mut Peer<'_>,
    method: &'static str,
    path: &str,
) -> Result<(Head, String), CheckError> {
    let failed = |error: std::io::Error| CheckError::Failed(format!("{method} {path}: {error}"));
    let exchange = channel(peer)?.start(method, path, None, None);
    complete(context, exchange.map_err(failed)?).map_err(failed)
}

/// Waits for the whole response.
pub fn complete(context: &Context<'_>, mut exchange: Exchange) -> std::io::Result<(Head, String)> {
    let deadline = context.settings.deadline();
    while !exchange.is_complete() && !deadline.is_over() {
        exchange.advance(deadline.left())?;
    }
    match exchange.head() {
        Some(head) => Ok((head.clone(), exchange.body())),
        None => Err(std::io::Error::other("no response in time")),
    }
}

pub fn next_event(context: &Context<'_>, events: &mut Exchange) -> Result<SseEvent, CheckError> {
    let failed = |error: std::io::Error| CheckError::Failed(format!("event stream: {error}"));
    let deadline = context.settings.deadline();
    loop {
        if let Some(event) = events.next_event() {
            return Ok(event);
        }
        if deadline.is_over() || events.is_complete() {
            let status = events.head().map(|head| head.status);
            let text = format!("no event in time, status {status:?}: {}", events.body());
            return Err(CheckError::Failed(text));
        }
        events.advance(deadline.left()).map_err(failed)?;
    }
}
