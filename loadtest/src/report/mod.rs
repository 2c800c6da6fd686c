//! Results as people and other programs read them.

pub mod csv;
pub mod figure;
pub mod hlog;
pub mod html;
pub mod progress;
pub mod search;
pub mod spark;
pub mod table;

mod scenes;
