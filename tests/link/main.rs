//! Connections over a ring that does nothing by itself: what a link asks for, in which order, and
//! what it holds meanwhile.

#[cfg(test)]
mod ends;
#[cfg(test)]
mod frame_schedules;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod partings;
#[cfg(test)]
mod pauses;
#[cfg(test)]
mod peer;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod script;
#[cfg(test)]
mod sends;
#[cfg(test)]
mod silences;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod strains;
#[cfg(test)]
mod times;
#[cfg(test)]
mod upgrades;
