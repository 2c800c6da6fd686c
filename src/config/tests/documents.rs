//! The tables of options in docs/operators.md name options, with their defaults.

use crate::config::options::Options;
use crate::config::table::{self, Row};

const OPERATORS: &str = include_str!("../../../docs/operators.md");

/// Returns the cells of the rows of every table whose first columns are option and default.
fn documented_rows() -> Vec<Vec<&'static str>> {
    let mut rows = Vec::new();
    let mut is_table = false;
    for line in OPERATORS.lines() {
        is_table = line.starts_with("| option | default |") || is_table && line.starts_with('|');
        let cells: Vec<&str> = line.split('|').map(str::trim).skip(1).collect();
        if is_table && cells[0].starts_with('`') {
            rows.push(cells);
        }
    }
    rows
}

/// Returns the options that `cell` names in code, by flag or key, each once. `-bytes` stands for
/// the flag before it with another last word.
fn named_options(cell: &str) -> Vec<&'static Row> {
    let mut options: Vec<&Row> = Vec::new();
    for name in cell.split('`').skip(1).step_by(2) {
        let flag = match (name.strip_prefix("--"), name.strip_prefix('-')) {
            (Some(flag), _) => Some(flag.to_owned()),
            (None, Some(word)) => {
                let before = options.last().expect("an option stands before it").flag();
                Some(format!("{}-{word}", before.rsplit_once('-').expect("a flag of words").0))
            }
            (None, None) => None,
        };
        let named = |row: &&Row| match &flag {
            Some(flag) => row.flag() == *flag,
            None => row.key == name,
        };
        let option = table::rows().find(named).unwrap_or_else(|| panic!("{name} is no option"));
        if options.last().is_none_or(|last| last.key != option.key) {
            options.push(option);
        }
    }
    options
}

/// Returns whether `text`, such as `1,024 per shard`, is the value of `row` that `value` is.
fn is_same(row: &Row, text: &str, value: &str) -> bool {
    let mut words = text.split(' ');
    let number = words.next().unwrap_or_default().replace(',', "");
    let with_suffix = format!("{number}{}", words.next().unwrap_or_default());
    let parsed = row.unit.parse(&with_suffix).or_else(|_| row.unit.parse(&number));
    text == value || (parsed.is_ok() && parsed == row.unit.parse(value))
}

#[test]
fn documented_defaults_are_those_of_options() {
    let defaults = Options::default();
    let mut keys = Vec::new();
    for cells in documented_rows() {
        let options = named_options(cells[0]);
        let texts = cells[1].replace('`', "");
        let texts: Vec<&str> = texts.split(", ").collect();
        assert!(texts.len() >= options.len(), "{cells:?}");
        for (row, text) in options.iter().zip(texts) {
            let value = row.format_value(&defaults);
            assert!(is_same(row, text, &value), "{} is {value}, documented as {text}", row.key);
            keys.push(row.key);
        }
    }
    assert!(keys.contains(&"tcp.address") && keys.contains(&"parity.resume_window_bytes"));
    assert!(keys.len() > 80, "{keys:?}");
}
