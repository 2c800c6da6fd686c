//! WebSocket: after the handshake, bytes pass between the client and the shard unread.

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Response};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::UnixStream;

use super::connection::Connection;
use super::request::remove_connection_fields;
use super::response::ResponseBody;

/// Passes on the response that accepts a handshake, and then the bytes of both sides until they
/// close.
pub(super) fn switch_protocols(
    response: Response<Incoming>,
    client: OnUpgrade,
    connection: Box<Connection>,
) -> Response<ResponseBody> {
    tokio::spawn(async move {
        let (server, read) = connection.into_upgraded().await;
        // An error is the end of the connection, on either side.
        drop(copy(client, server, read).await);
    });
    let mut response = response.map(|_| ResponseBody::empty());
    let headers = response.headers_mut();
    remove_connection_fields(headers);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    response
}

/// Copies until both sides have closed. `read` came from the server behind its response.
async fn copy(client: OnUpgrade, mut server: UnixStream, read: Bytes) -> std::io::Result<()> {
    let mut client = TokioIo::new(client.await.map_err(std::io::Error::other)?);
    client.write_all(&read).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
