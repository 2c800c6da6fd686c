//! What a server says it has counted is what happened to it.

#[cfg(test)]
mod endings;
#[cfg(test)]
mod handlers;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod traffic;
