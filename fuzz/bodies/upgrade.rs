//! How a server accepts an upgrade to WebSocket (RFC 6455, section 4.2.2).

use tungstenite::handshake::derive_accept_key;

/// Returns the response that accepts an upgrade request.
pub(crate) fn accept_upgrade(request: &[u8]) -> Vec<u8> {
    let request = String::from_utf8_lossy(request);
    let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
    let accept = derive_accept_key(key.unwrap_or_default().as_bytes());
    let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade";
    format!("{head}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes()
}
