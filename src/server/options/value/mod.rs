//! Conversion between texts and typed values.
//!
//! Invariants: [`Value::parse_from`] accepts what [`Value::format`] returns, as the same value. A
//! rejected text leaves the value unchanged.

mod http;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub use self::http::DEFAULT;
use super::unit::{Diagnostic, Unit, nearest};

/// A typed field of the options that can be set from a text.
pub trait Value {
    /// Sets the value from `text`, in `unit`.
    ///
    /// # Errors
    ///
    /// The text is not a value of `unit`; the value is unchanged then.
    fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic>;

    /// Returns the value as text, in `unit`.
    fn format(&self, unit: &Unit) -> String;
}

/// An enum whose values have names.
pub trait Choice: Copy + PartialEq + Sized + 'static {
    /// Names, in the order of `--help`.
    const NAMES: &'static [&'static str];

    /// Values of the names, in the same order.
    const VALUES: &'static [Self];
}

impl<T: Choice> Value for T {
    fn parse_from(&mut self, text: &str, _: &Unit) -> Result<(), Diagnostic> {
        let Some(index) = T::NAMES.iter().position(|word| *word == text) else {
            let hint = match nearest(text, T::NAMES.iter().copied()) {
                Some(word) => format!("did you mean {word}?"),
                None => format!("write one of {}", T::NAMES.join(", ")),
            };
            return Err(Diagnostic::new(format!("{text:?} is not an allowed value"), hint));
        };
        *self = T::VALUES[index];
        Ok(())
    }

    fn format(&self, _: &Unit) -> String {
        let index = T::VALUES.iter().position(|value| value == self);
        index.map_or("", |index| T::NAMES[index]).to_owned()
    }
}

/// Declares an enum with the name of each value: `Native = "native"`.
macro_rules! choice {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$about:meta])+ $variant:ident = $text:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub enum $name {
            $($(#[$about])+ $variant,)+
        }

        impl $crate::server::options::value::Choice for $name {
            const NAMES: &'static [&'static str] = &[$($text),+];
            const VALUES: &'static [Self] = &[$(Self::$variant),+];
        }
    };
}

pub(super) use choice;

macro_rules! whole_number {
    ($($kind:ty),+) => {$(
        impl Value for $kind {
            fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic> {
                let number = match (text, unit) {
                    ("off", Unit::BytesOrOff { .. }) => u64::from(u32::MAX),
                    _ => unit.parse(text)?,
                };
                *self = Self::try_from(number).map_err(|_| unit.out_of_range(text))?;
                Ok(())
            }

            fn format(&self, unit: &Unit) -> String {
                let number = u64::try_from(*self).unwrap_or(u64::MAX);
                match unit {
                    Unit::BytesOrOff { .. } if number == u64::from(u32::MAX) => "off".to_owned(),
                    _ => unit.format(number),
                }
            }
        }
    )+};
}

whole_number!(u8, u16, u32, usize);

impl Value for Duration {
    fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic> {
        *self = Self::from_millis(unit.parse(text)?);
        Ok(())
    }

    fn format(&self, unit: &Unit) -> String {
        unit.format(u64::try_from(self.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Value for bool {
    fn parse_from(&mut self, text: &str, _: &Unit) -> Result<(), Diagnostic> {
        *self = text.parse().map_err(|_| {
            Diagnostic::new(format!("{text:?} is neither true nor false"), "write true or false")
        })?;
        Ok(())
    }

    fn format(&self, _: &Unit) -> String {
        self.to_string()
    }
}

/// A part of all, in millionths.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ratio(u32);

impl Ratio {
    /// All.
    pub const ONE: Self = Self(1_000_000);

    /// Returns this many millionths, at most all.
    pub const fn from_millionths(millionths: u32) -> Self {
        Self(if millionths > 1_000_000 { 1_000_000 } else { millionths })
    }

    /// Returns the millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

impl Value for Ratio {
    fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic> {
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let number: f64 = text.parse().ok().filter(|_| is_decimal).ok_or_else(|| {
            Diagnostic::new(format!("{text:?} is not {}", unit.type_name()), unit.notation())
        })?;
        if number > 1.0 {
            return Err(unit.out_of_range(text));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to a million"
        )]
        let millionths = (number * 1e6).round() as u32;
        *self = Self(millionths);
        Ok(())
    }

    fn format(&self, unit: &Unit) -> String {
        unit.format(self.0.into())
    }
}

/// A number, or `auto` for `None`.
impl Value for Option<u16> {
    fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic> {
        if text == "auto" {
            *self = None;
            return Ok(());
        }
        let mut number = 0_u16;
        number.parse_from(text, unit)?;
        *self = Some(number);
        Ok(())
    }

    fn format(&self, unit: &Unit) -> String {
        self.map_or_else(|| "auto".to_owned(), |number| number.format(unit))
    }
}

/// An address with its port, or `off` for `None`.
impl Value for Option<SocketAddr> {
    fn parse_from(&mut self, text: &str, _: &Unit) -> Result<(), Diagnostic> {
        if text == "off" {
            *self = None;
            return Ok(());
        }
        *self = Some(parse_address(text).ok_or_else(|| invalid_address(text))?);
        Ok(())
    }

    fn format(&self, _: &Unit) -> String {
        self.map_or_else(|| "off".to_owned(), |address| address.to_string())
    }
}

/// Reads an address with a port: `localhost` is 127.0.0.1, and a port after a colon alone is that
/// of every network of IPv4.
fn parse_address(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let (name, port) = text.rsplit_once(':')?;
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port: u16 = port.parse().ok().filter(|_| is_number)?;
    match name {
        "" | "*" => Some((Ipv4Addr::UNSPECIFIED, port).into()),
        _ if name.eq_ignore_ascii_case("localhost") => Some((Ipv4Addr::LOCALHOST, port).into()),
        _ => None,
    }
}

/// Returns a diagnostic that distinguishes the usual mistakes in an address.
fn invalid_address(text: &str) -> Diagnostic {
    const SHAPE: &str = "write it as 127.0.0.1:8888, localhost:8888, [::1]:8888, :8888 or off";
    if text.parse::<u16>().is_ok() {
        return Diagnostic::new(
            format!("{text:?} is a port without an address"),
            format!("write 127.0.0.1:{text} for this machine, :{text} for every network"),
        );
    }
    if text.eq_ignore_ascii_case("localhost") {
        return Diagnostic::new(format!("{text:?} has no port"), SHAPE);
    }
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Diagnostic::new(format!("{text:?} has no port"), SHAPE);
    }
    let name = text.rsplit_once(':').map_or(text, |(name, _)| name);
    if name.contains(|char: char| char.is_ascii_alphabetic()) && !name.contains(':') {
        let message =
            format!("{text:?} is a host name; names other than localhost are not resolved");
        return Diagnostic::new(message, SHAPE);
    }
    Diagnostic::new(format!("{text:?} is not an address with a port"), SHAPE)
}

/// The path of a directory or file, or `off` for `None`. It is not checked whether it exists.
impl Value for Option<PathBuf> {
    fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic> {
        if text.is_empty() || text.contains('\0') {
            return Err(Diagnostic::new(format!("{text:?} is not a path"), unit.notation()));
        }
        if text == "~" || text.starts_with("~/") {
            let hint = "write the whole path: ~ is expanded by shells only";
            return Err(Diagnostic::new(format!("{text:?} begins with ~"), hint));
        }
        *self = (text != "off").then(|| PathBuf::from(text));
        Ok(())
    }

    fn format(&self, _: &Unit) -> String {
        self.as_ref().map_or_else(|| "off".to_owned(), |path| path.display().to_string())
    }
}

/// Paths of files, or `off` for none. It is not checked whether they exist.
impl Value for Vec<PathBuf> {
    fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic> {
        if text == "off" {
            self.clear();
            return Ok(());
        }
        let mut paths = Self::new();
        for text in text.split(',') {
            let mut path = None;
            path.parse_from(text.trim(), unit)?;
            paths.extend(path);
        }
        *self = paths;
        Ok(())
    }

    fn format(&self, _: &Unit) -> String {
        let paths: Vec<String> = self.iter().map(|path| path.display().to_string()).collect();
        if paths.is_empty() { "off".to_owned() } else { paths.join(",") }
    }
}

/// Cpus in order, or `auto` for `None`.
impl Value for Option<Vec<u16>> {
    fn parse_from(&mut self, text: &str, unit: &Unit) -> Result<(), Diagnostic> {
        const SHAPE: &str = "write a list such as 0,2-5, or auto";
        if text == "auto" {
            *self = None;
            return Ok(());
        }
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| {
                let number = unit.parse(text.trim()).map_err(|diagnostic| {
                    Diagnostic::new(format!("in the list {text:?}: {}", diagnostic.message), SHAPE)
                })?;
                u16::try_from(number).map_err(|_| unit.out_of_range(text))
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(Diagnostic::new(format!("the range {part:?} is reversed"), SHAPE));
            }
            for cpu in first..=last {
                if cpus.contains(&cpu) {
                    return Err(Diagnostic::new(
                        format!("cpu {cpu} is listed twice"),
                        "list each cpu once: a shard has a cpu of its own",
                    ));
                }
                cpus.push(cpu);
            }
        }
        *self = Some(cpus);
        Ok(())
    }

    fn format(&self, _: &Unit) -> String {
        self.as_ref().map_or_else(|| "auto".to_owned(), |cpus| format_number_list(cpus))
    }
}

/// Formats numbers as a list with ranges: `0,2-5`.
fn format_number_list(numbers: &[u16]) -> String {
    let mut parts: Vec<(u16, u16)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let texts: Vec<String> = parts
        .iter()
        .map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    texts.join(",")
}

/// Comma-separated names with a number behind each, or `default` for an empty list.
impl Value for Vec<(String, u32)> {
    fn parse_from(&mut self, text: &str, _: &Unit) -> Result<(), Diagnostic> {
        let mut limits = Self::new();
        for entry in text.split(',').filter(|_| text != DEFAULT) {
            let parts = entry.trim().rsplit_once(' ');
            let limit = parts.and_then(|(name, number)| Some((name.trim(), number.parse().ok()?)));
            let Some((name, number)) = limit.filter(|(name, _)| !name.is_empty()) else {
                let message = format!("{entry:?} is not the name of a tool and a number");
                return Err(Diagnostic::new(message, "write such as deploy_app 4"));
            };
            limits.push((name.to_owned(), number));
        }
        *self = limits;
        Ok(())
    }

    fn format(&self, _: &Unit) -> String {
        if self.is_empty() {
            return DEFAULT.to_owned();
        }
        let limits: Vec<String> =
            self.iter().map(|(name, number)| format!("{name} {number}")).collect();
        limits.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::options::ExecutorKind;

    const CPUS: Unit = Unit::Cpus { max: 4095 };

    fn cpus(text: &str) -> Result<Option<Vec<u16>>, Diagnostic> {
        let mut value = None;
        value.parse_from(text, &CPUS).map(|()| value)
    }

    #[test]
    fn cpu_list_preserves_order_and_formats_ranges() {
        for text in ["0", "0,2-5", "3,1", "auto", "7-8,0-1"] {
            assert_eq!(cpus(text).unwrap().format(&CPUS), text);
        }
        assert_eq!(cpus("2,3,4").unwrap().format(&CPUS), "2-4");
        assert_eq!(cpus(" 1, 2 ").unwrap(), Some(vec![1, 2]));
    }

    #[test]
    fn malformed_cpu_list_is_rejected() {
        for text in ["", ",", "1,,2", "5-2", "1-2-3", "1,1", "0-3,2", "x", "4096", "0-99999"] {
            assert!(cpus(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn invalid_addresses_get_specific_hints() {
        let diagnostic = |text: &str| {
            let mut address: Option<SocketAddr> = None;
            address.parse_from(text, &Unit::Address).unwrap_err()
        };
        assert!(diagnostic("8888").hint.starts_with("write 127.0.0.1:8888"));
        assert!(diagnostic("127.0.0.1").message.ends_with("has no port"));
        assert!(diagnostic("::1").message.ends_with("has no port"));
        assert!(diagnostic("localhost").message.ends_with("has no port"));
        assert!(diagnostic("example.com:8888").message.ends_with("are not resolved"));
        for text in ["localhost:", "localhost:+80", ":99999", "*:x", "::8888"] {
            assert!(!diagnostic(text).hint.is_empty(), "{text}");
        }
        assert!(diagnostic("127.0.0.1:88888").message.ends_with("not an address with a port"));
        assert!(diagnostic("").message.ends_with("not an address with a port"));
    }

    #[test]
    fn localhost_and_bare_ports_are_addresses() {
        for (text, expected) in [
            ("localhost:8080", "127.0.0.1:8080"),
            ("LocalHost:0", "127.0.0.1:0"),
            (":8080", "0.0.0.0:8080"),
            ("*:8080", "0.0.0.0:8080"),
            ("[::1]:8080", "[::1]:8080"),
        ] {
            let mut address: Option<SocketAddr> = None;
            address.parse_from(text, &Unit::Address).unwrap();
            assert_eq!(address.format(&Unit::Address), expected, "{text}");
        }
    }

    #[test]
    fn directory_path_is_parsed_verbatim() {
        let mut path = Some(PathBuf::from("before"));
        for text in ["/srv/docs", "docs", "./off", "a b/\"ü\"", "7"] {
            path.parse_from(text, &Unit::Directory).unwrap();
            assert_eq!(path.format(&Unit::Directory), text);
        }
        for text in ["", "a\0b", "~", "~/docs"] {
            assert!(path.parse_from(text, &Unit::Directory).is_err(), "{text:?}");
        }
        assert_eq!(path, Some(PathBuf::from("7")));
        path.parse_from("off", &Unit::Directory).unwrap();
        assert_eq!(path, None);
    }

    #[test]
    fn misspelled_choice_gets_suggestion_or_list() {
        let mut executor = ExecutorKind::Native;
        let diagnostic = executor.parse_from("glomio", &Unit::Switch).unwrap_err();
        assert_eq!(diagnostic.hint, "did you mean glommio?");
        let diagnostic = executor.parse_from("tokio-multi", &Unit::Switch).unwrap_err();
        assert_eq!(diagnostic.hint, "write one of auto, native, glommio");
        assert_eq!(executor, ExecutorKind::Native);
    }

    #[test]
    fn limits_of_tools_are_read_and_formatted() {
        let mut limits: Vec<(String, u32)> = Vec::new();
        limits.parse_from("a 1, two words 20", &Unit::Words).unwrap();
        assert_eq!(limits, [("a".to_owned(), 1), ("two words".to_owned(), 20)]);
        assert_eq!(limits.format(&Unit::Words), "a 1,two words 20");
        for text in ["a", "a x", " 1", "", "a -1", "a 1,,b 2"] {
            let diagnostic = limits.parse_from(text, &Unit::Words).unwrap_err();
            assert!(diagnostic.message.ends_with("is not the name of a tool and a number"));
        }
        assert_eq!(limits.len(), 2, "a rejected text changes nothing");
        limits.parse_from("default", &Unit::Words).unwrap();
        assert!(limits.is_empty());
    }
}
