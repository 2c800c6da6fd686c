//! Connections over a ring that does nothing by itself: what a link asks for, in which order, and
//! what it holds meanwhile.

#[cfg(test)]
mod ends;
#[cfg(test)]
mod pauses;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod script;
#[cfg(test)]
mod sends;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod times;
