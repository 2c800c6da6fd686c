//! The documents about options: docs/options.md is made from their declarations, and the tables in
//! docs/operators.md and docs/limits.md name options with their defaults.

use std::{env, fs};

use crate::config::options::Options;
use crate::config::table::{self, Row};

const PAGES: [&str; 2] =
    [include_str!("../../../docs/operators.md"), include_str!("../../../docs/limits.md")];

/// Made by `CORELANE_WRITE_OPTIONS=1 cargo test --lib config::`.
const OPTIONS_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/options.md");

const OPTIONS_HEAD: &str = "\
# Options

Every option of `corelane serve`, `stdio` and `check`. Flag, variable and key of the file have the
same words: `--tcp-connections-max`, `CORELANE_TCP_CONNECTIONS_MAX`, `tcp.connections_max`. SIGHUP
applies a new value where \"reload\" is \"yes\"; others need a restart. [Operators](operators.md)
explains what belongs together, and how values are written.
";

const COLUMNS: &str = "\
| option | key | default | reload | what it does | cost |
| --- | --- | --- | --- | --- | --- |";

/// Returns the text of docs/options.md.
fn options_page() -> String {
    let defaults = Options::default();
    let sections = table::SECTIONS.iter().map(|section| {
        let rows = section.rows().map(|row| option_line(row, &defaults));
        format!("\n## {}\n\n{COLUMNS}\n{}", section.heading, rows.collect::<String>())
    });
    format!("{OPTIONS_HEAD}{}", sections.collect::<String>())
}

fn option_line(row: &Row, defaults: &Options) -> String {
    let (flag, key, cost) = (row.flag(), row.key, row.cost);
    let value = row.unit.placeholder().replace('|', "\\|");
    let reload = if row.is_reloadable { "yes" } else { "no" };
    let (default, about) = (row.format_value(defaults), row.description());
    format!("| `--{flag} {value}` | `{key}` | `{default}` | {reload} | {about} | {cost} |\n")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "no option: the developer who adds one sets it")]
fn page_of_options_is_that_of_declarations() {
    let expected = options_page();
    if env::var_os("CORELANE_WRITE_OPTIONS").is_some() {
        fs::write(OPTIONS_PATH, &expected).unwrap();
    }
    let written = fs::read_to_string(OPTIONS_PATH).unwrap();
    for (line, expected) in written.lines().zip(expected.lines()) {
        assert_eq!(line, expected);
    }
    assert_eq!(written.len(), expected.len());
}

/// Returns the cells of the rows of every table whose first columns are option and default.
fn documented_rows() -> Vec<Vec<&'static str>> {
    let mut rows = Vec::new();
    let mut is_table = false;
    for line in PAGES.iter().flat_map(|page| page.lines()) {
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
    assert!(keys.len() > 95, "{keys:?}");
}
