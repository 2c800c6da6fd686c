//! The client of a request: the peer of its connection, or the client that the peer names if that
//! is a trusted proxy.
//!
//! Invariants: the record and the state of a connection have the address of its current request;
//! what a peer names that is not trusted changes nothing.

use corelane_base::slab::Key;
use corelane_transport::http::forwarded::{self, ForwardedClient};
use corelane_transport::http::head::Head;

use crate::server::acceptance::ProxyRules;
use crate::server::shard::Shard;

/// Finds the client of a request, and counts what the request says of it.
#[inline]
pub(super) fn identify(shard: &mut Shard, key: Key, head: &Head, bytes: &[u8]) {
    if is_of_proxy(shard, key) {
        let client = named_client(&shard.transports.acceptor.proxies, head, bytes);
        let counters = &mut shard.outbox.counters.forwarded;
        match client {
            ForwardedClient::At(_) => counters.client += 1,
            ForwardedClient::Missing => counters.missing += 1,
            ForwardedClient::Invalid => counters.invalid += 1,
        }
        set(shard, key, client);
    } else if forwarded::names_client(head, bytes) {
        shard.outbox.counters.forwarded.ignored += 1;
    }
}

/// Finds the client of a request whose body is still to come.
pub(super) fn identify_by_head(shard: &mut Shard, key: Key) {
    if is_of_proxy(shard, key)
        && let Some((head, bytes)) = shard.transports.connections.table.pending_head(key)
    {
        let client = named_client(&shard.transports.acceptor.proxies, head, bytes);
        set(shard, key, client);
    }
}

#[inline]
fn is_of_proxy(shard: &Shard, key: Key) -> bool {
    let connection = shard.transports.connections.table.get(key);
    connection.is_some_and(|connection| connection.state.proxy().is_some())
}

/// Returns the client that a request of a trusted proxy names.
#[inline]
fn named_client(rules: &ProxyRules, head: &Head, bytes: &[u8]) -> ForwardedClient {
    rules.field.client_of(head, bytes, |address| rules.trusted.contains(address))
}

/// Makes `client` that of the current request of a trusted proxy. Without an address it is the
/// proxy itself.
#[inline]
fn set(shard: &mut Shard, key: Key, client: ForwardedClient) {
    let Some(connection) = shard.transports.connections.table.get_mut(key) else { return };
    let Some(proxy) = connection.state.proxy() else { return };
    let peer = match client {
        ForwardedClient::At(address) => address.into(),
        ForwardedClient::Missing | ForwardedClient::Invalid => proxy,
    };
    connection.state.client = shard.transports.acceptor.proxies.trusted.client_at(peer.ip());
    connection.record.set_peer(peer);
}
