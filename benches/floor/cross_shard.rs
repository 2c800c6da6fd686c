//! Assignment of sessions to connections of another shard.
//!
//! A session is owned by the shard of the connection that opened it, and its id encodes that shard
//! (`server/http/identity.rs`): the first 48 bits, as a fraction of one, select one of equal
//! ranges. With two shards the first hexadecimal digit is enough.

use std::io;

use corelane_bench_support::requests::SESSION_BYTES;

type Session = [u8; SESSION_BYTES];

/// Returns for each connection, whose shard is that of its `own` session, a session of the other
/// shard. Sessions are shared if a shard has fewer than the other has connections.
pub(crate) fn exchange(own: &[Session]) -> io::Result<Vec<Session>> {
    let (first, second): (Vec<Session>, Vec<Session>) =
        own.iter().partition(|session| is_on_first_shard(session));
    if first.is_empty() || second.is_empty() {
        return Err(io::Error::other("all connections are on one shard"));
    }
    let (mut of_first, mut of_second) = (first.iter().cycle(), second.iter().cycle());
    let foreign = |session: &Session| {
        let others = if is_on_first_shard(session) { &mut of_second } else { &mut of_first };
        others.next().copied().unwrap_or(*session)
    };
    Ok(own.iter().map(foreign).collect())
}

const fn is_on_first_shard(session: &Session) -> bool {
    session[0] < b'8'
}
