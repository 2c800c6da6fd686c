//! Letters between shards, of which the lanes carry more than a server says today.

pub(crate) mod correspondence;

pub(crate) mod courier;
