//! The one table of options: flags, help, environment, file and `check` all come from it.
//!
//! What it keeps true: an option exists when it has a row here and nowhere else. Its flag and its
//! environment variable follow from its key, so that whoever knows one knows all three. Defaults
//! are not repeated here: they are read from [`Options`].

use crate::config::options::Options;
use crate::config::problem::Refusal;
use crate::config::unit::Unit;
use crate::config::value::{self, Value};

mod engine;
mod http;
mod limits;
mod listeners;
mod services;
mod websocket;

/// One option.
#[derive(Debug)]
pub struct Row {
    /// Its key in the file, with the sections before it: `tcp.connections_max`.
    pub key: &'static str,
    /// A name shorter than the key, for the flag and the variable of options that everybody
    /// uses: `tcp` for `tcp.address`.
    pub short: Option<&'static str>,
    /// What it is counted in, and its bounds.
    pub unit: Unit,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// What more of it costs.
    pub cost: &'static str,
    /// Where it comes from: a section of the transport contract (seed 001), of a specification,
    /// or the engine.
    pub source: &'static str,
    /// The field that it sets.
    pub field: fn(&mut Options) -> &mut dyn Value,
}

/// Rows that help shows together.
#[derive(Debug)]
pub struct Section {
    /// The heading in help.
    pub heading: &'static str,
    /// The rows.
    pub rows: &'static [Row],
}

/// Every section, in the order of help.
pub static SECTIONS: [&Section; 12] = [
    &engine::SERVER,
    &listeners::TCP,
    &http::HTTP,
    &http::SESSIONS,
    &websocket::WEBSOCKET,
    &listeners::STDIO,
    &limits::LIMITS,
    &services::SERVICES,
    &services::FILES,
    &engine::THREADS,
    &engine::RING,
    &engine::MESH,
];

/// Every row, in the order of help.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

/// The row with this key.
pub fn find(key: &str) -> Option<&'static Row> {
    rows().find(|row| row.key == key)
}

impl Row {
    /// Its flag, without the dashes: `tcp-connections-max`.
    pub fn flag(&self) -> String {
        self.short.unwrap_or(self.key).replace(['.', '_'], "-")
    }

    /// Its environment variable: `CORELANE_TCP_CONNECTIONS_MAX`.
    pub fn variable(&self) -> String {
        let name = self.short.unwrap_or(self.key).replace('.', "_");
        format!("CORELANE_{}", name.to_uppercase())
    }

    /// Sets its field from a text.
    pub fn set(&self, options: &mut Options, text: &str) -> Result<(), Refusal> {
        (self.field)(options).read(text, &self.unit)
    }

    /// The value of its field, as a text that [`Row::set`] accepts.
    pub fn show(&self, options: &Options) -> String {
        (self.field)(&mut options.clone()).show(&self.unit)
    }

    /// The value of its field as TOML: numbers and switches bare, names as an array, the rest in
    /// quotes.
    pub fn show_toml(&self, options: &Options) -> String {
        let text = self.show(options);
        if self.unit.is_names() && text != value::DEFAULT {
            let names = text.split(',').map(|name| toml::Value::String(name.to_owned()));
            return toml::Value::Array(names.collect()).to_string();
        }
        let is_bare = text.parse::<u64>().is_ok() || text.parse::<bool>().is_ok();
        if is_bare && self.unit != Unit::Directory {
            return text;
        }
        toml::Value::String(text).to_string()
    }
}

/// A minute in milliseconds.
const MINUTE: u64 = 60_000;
/// A day in milliseconds.
const DAY: u64 = 24 * 60 * MINUTE;
/// 1,024 bytes.
const KIB: u64 = 1 << 10;
/// 1,024 KiB.
const MIB: u64 = 1 << 20;
/// 1,024 MiB.
const GIB: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_follow_from_the_key() {
        let keys: BTreeSet<_> = rows().map(|row| row.key).collect();
        let flags: BTreeSet<_> = rows().map(Row::flag).collect();
        let variables: BTreeSet<_> = rows().map(Row::variable).collect();
        let count = rows().count();
        assert_eq!((keys.len(), flags.len(), variables.len()), (count, count, count));
        let row = find("tcp.connections_max").unwrap();
        assert_eq!(row.flag(), "tcp-connections-max");
        assert_eq!(row.variable(), "CORELANE_TCP_CONNECTIONS_MAX");
        let row = find("tcp.address").unwrap();
        assert_eq!((row.flag().as_str(), row.variable().as_str()), ("tcp", "CORELANE_TCP"));
    }

    #[test]
    fn no_key_is_the_section_of_another() {
        for row in rows() {
            let section = format!("{}.", row.key);
            assert!(rows().all(|other| !other.key.starts_with(&section)), "{}", row.key);
        }
    }

    #[test]
    fn every_row_says_what_it_does_what_it_costs_and_where_it_comes_from() {
        for row in rows() {
            assert!(row.about.ends_with('.'), "{}", row.key);
            assert!(!row.cost.is_empty() && !row.source.is_empty(), "{}", row.key);
            assert!(!row.cost.ends_with('.') && !row.source.ends_with('.'), "{}", row.key);
        }
    }

    #[test]
    fn every_default_and_both_bounds_are_accepted_and_show_as_they_were_set() {
        for row in rows() {
            for defaults in [Options::default(), Options::tiny()] {
                let shown = row.show(&defaults);
                let mut options = Options::default();
                assert_eq!(row.set(&mut options, &shown), Ok(()), "{} = {shown}", row.key);
                assert_eq!(row.show(&options), shown, "{}", row.key);
            }
            let (least, most) = row.unit.bounds();
            if most == u64::MAX {
                continue;
            }
            for bound in [least, most] {
                let text = row.unit.write(bound);
                let mut options = Options::default();
                assert_eq!(row.set(&mut options, &text), Ok(()), "{} = {text}", row.key);
                assert_eq!(row.show(&options), text, "{}", row.key);
            }
            assert!(row.set(&mut Options::default(), &(most + 1).to_string()).is_err());
        }
    }
}
