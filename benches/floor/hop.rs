//! Sessions that are never used where they live.
//!
//! A session lives on the shard that has the connection over which it was opened, and its name
//! tells which that is (`server/http/identity.rs`): the first 48 bits, read as a fraction of one,
//! fall into one of as many equal stretches as there are shards. Of two shards, the first digit
//! tells.

use std::io;

use crate::requests::SESSION_BYTES;

type Session = [u8; SESSION_BYTES];

/// For each connection, whose `own` session tells its shard, a session of the other shard of two.
/// Where one shard has fewer sessions than the other has connections, they are shared.
pub(crate) fn exchange(own: &[Session]) -> io::Result<Vec<Session>> {
    let (first, second): (Vec<Session>, Vec<Session>) =
        own.iter().partition(|session| is_of_first(session));
    if first.is_empty() || second.is_empty() {
        return Err(io::Error::other("all connections came to one shard"));
    }
    let (mut of_first, mut of_second) = (first.iter().cycle(), second.iter().cycle());
    let foreign = |session: &Session| {
        let others = if is_of_first(session) { &mut of_second } else { &mut of_first };
        others.next().copied().unwrap_or(*session)
    };
    Ok(own.iter().map(foreign).collect())
}

const fn is_of_first(session: &Session) -> bool {
    session[0] < b'8'
}
