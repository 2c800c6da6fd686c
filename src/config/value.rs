//! Texts become typed values, and back.
//!
//! What it keeps true: whatever [`Value::show`] writes, [`Value::read`] reads as the same value;
//! a refused text leaves the value as it was and says what was expected. It does not know which
//! option it reads for, nor where the text came from.

mod names;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::options::{Executor, LogLevel, Profile, RingBackend, Utf8CloseCode};
use crate::config::problem::Refusal;
use crate::config::suggest::nearest;
use crate::config::unit::Unit;

pub use self::names::DEFAULT;

/// A typed field of the options that a text can set.
pub trait Value {
    /// Takes the value from `text`, in `unit`.
    fn read(&mut self, text: &str, unit: &Unit) -> Result<(), Refusal>;

    /// The value as a text, in `unit`.
    fn show(&self, unit: &Unit) -> String;
}

/// An enum of words.
pub trait Choice: Copy + PartialEq + Sized + 'static {
    /// The words, in the order in which help shows them.
    const WORDS: &'static [&'static str];

    /// What each word means, in the same order.
    const MEANINGS: &'static [Self];
}

impl<T: Choice> Value for T {
    fn read(&mut self, text: &str, _: &Unit) -> Result<(), Refusal> {
        let Some(place) = T::WORDS.iter().position(|word| *word == text) else {
            let remedy = match nearest(text, T::WORDS.iter().copied()) {
                Some(word) => format!("did you mean {word}?"),
                None => format!("write one of {}", T::WORDS.join(", ")),
            };
            return Err(Refusal::new(format!("{text:?} is none of its words"), remedy));
        };
        *self = T::MEANINGS[place];
        Ok(())
    }

    fn show(&self, _: &Unit) -> String {
        let place = T::MEANINGS.iter().position(|meaning| meaning == self);
        place.map_or("", |place| T::WORDS[place]).to_owned()
    }
}

macro_rules! words {
    ($name:ident { $($word:literal => $variant:ident,)+ }) => {
        impl Choice for $name {
            const WORDS: &'static [&'static str] = &[$($word,)+];
            const MEANINGS: &'static [Self] = &[$(Self::$variant,)+];
        }
    };
}

words!(Profile { "standard" => Standard, "tiny" => Tiny, });
words!(Executor { "auto" => Auto, "native" => Native, "glommio" => Glommio, });
words!(RingBackend { "auto" => Auto, "uring" => Uring, "poll" => Poll, });
words!(Utf8CloseCode { "1007" => InvalidPayload, "1002" => ProtocolError, });
words!(LogLevel {
    "off" => Off,
    "error" => Error,
    "warn" => Warn,
    "info" => Info,
    "debug" => Debug,
    "trace" => Trace,
});

macro_rules! whole_number {
    ($($kind:ty),+) => {$(
        impl Value for $kind {
            fn read(&mut self, text: &str, unit: &Unit) -> Result<(), Refusal> {
                let number = match (text, unit) {
                    ("off", Unit::BytesOrOff { .. }) => u64::from(u32::MAX),
                    _ => unit.number(text)?,
                };
                *self = Self::try_from(number).map_err(|_| unit.out_of_range(text))?;
                Ok(())
            }

            fn show(&self, unit: &Unit) -> String {
                let number = u64::try_from(*self).unwrap_or(u64::MAX);
                match unit {
                    Unit::BytesOrOff { .. } if number == u64::from(u32::MAX) => "off".to_owned(),
                    _ => unit.write(number),
                }
            }
        }
    )+};
}

whole_number!(u16, u32, usize);

impl Value for Duration {
    fn read(&mut self, text: &str, unit: &Unit) -> Result<(), Refusal> {
        *self = Self::from_millis(unit.number(text)?);
        Ok(())
    }

    fn show(&self, unit: &Unit) -> String {
        unit.write(u64::try_from(self.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Value for bool {
    fn read(&mut self, text: &str, _: &Unit) -> Result<(), Refusal> {
        *self = text.parse().map_err(|_| {
            Refusal::new(format!("{text:?} is neither true nor false"), "write true or false")
        })?;
        Ok(())
    }

    fn show(&self, _: &Unit) -> String {
        self.to_string()
    }
}

/// A number, or `auto` for none.
impl Value for Option<u16> {
    fn read(&mut self, text: &str, unit: &Unit) -> Result<(), Refusal> {
        if text == "auto" {
            *self = None;
            return Ok(());
        }
        let mut number = 0_u16;
        number.read(text, unit)?;
        *self = Some(number);
        Ok(())
    }

    fn show(&self, unit: &Unit) -> String {
        self.map_or_else(|| "auto".to_owned(), |number| number.show(unit))
    }
}

/// An address with its port, or `off` for none.
impl Value for Option<SocketAddr> {
    fn read(&mut self, text: &str, _: &Unit) -> Result<(), Refusal> {
        if text == "off" {
            *self = None;
            return Ok(());
        }
        *self = Some(text.parse().map_err(|_| refused_address(text))?);
        Ok(())
    }

    fn show(&self, _: &Unit) -> String {
        self.map_or_else(|| "off".to_owned(), |address| address.to_string())
    }
}

/// Tells the usual ways to miss an address apart.
fn refused_address(text: &str) -> Refusal {
    const SHAPE: &str = "write it as 127.0.0.1:8888, [::1]:8888 or off";
    let port = text.strip_prefix(':').unwrap_or(text);
    if port.parse::<u16>().is_ok() {
        return Refusal::new(
            format!("{text:?} names a port and no address"),
            format!("write 127.0.0.1:{port} for this machine, 0.0.0.0:{port} for every network"),
        );
    }
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Refusal::new(format!("{text:?} has no port"), SHAPE);
    }
    let name = text.rsplit_once(':').map_or(text, |(name, _)| name);
    if name.contains(|letter: char| letter.is_ascii_alphabetic()) && !name.contains(':') {
        return Refusal::new(format!("{text:?} is a name, and names are not resolved"), SHAPE);
    }
    Refusal::new(format!("{text:?} is not an address with a port"), SHAPE)
}

/// The path of a directory, or `off` for none. Whether it is there is not asked here.
impl Value for Option<PathBuf> {
    fn read(&mut self, text: &str, unit: &Unit) -> Result<(), Refusal> {
        if text.is_empty() || text.contains('\0') {
            return Err(Refusal::new(format!("{text:?} is no path"), unit.shape()));
        }
        if text == "~" || text.starts_with("~/") {
            let remedy = "write the whole path: only a shell knows what ~ is";
            return Err(Refusal::new(format!("{text:?} begins with ~"), remedy));
        }
        *self = (text != "off").then(|| PathBuf::from(text));
        Ok(())
    }

    fn show(&self, _: &Unit) -> String {
        self.as_ref().map_or_else(|| "off".to_owned(), |path| path.display().to_string())
    }
}

/// Cpus in order, or `auto` for none.
impl Value for Option<Vec<u16>> {
    fn read(&mut self, text: &str, unit: &Unit) -> Result<(), Refusal> {
        const SHAPE: &str = "write a list such as 0,2-5, or auto";
        if text == "auto" {
            *self = None;
            return Ok(());
        }
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| {
                let number = unit.number(text.trim()).map_err(|refusal| {
                    Refusal::new(format!("in the list {text:?}: {}", refusal.what), SHAPE)
                })?;
                u16::try_from(number).map_err(|_| unit.out_of_range(text))
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(Refusal::new(format!("the range {part:?} runs backwards"), SHAPE));
            }
            for cpu in first..=last {
                if cpus.contains(&cpu) {
                    return Err(Refusal::new(
                        format!("cpu {cpu} is named twice"),
                        "name each cpu once: a shard owns its cpu",
                    ));
                }
                cpus.push(cpu);
            }
        }
        *self = Some(cpus);
        Ok(())
    }

    fn show(&self, _: &Unit) -> String {
        self.as_ref().map_or_else(|| "auto".to_owned(), |cpus| write_list(cpus))
    }
}

/// Numbers as a list, runs of neighbours folded: `0,2-5`.
pub fn write_list(numbers: &[u16]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    const CPUS: Unit = Unit::Cpus { most: 4095 };

    fn cpus(text: &str) -> Result<Option<Vec<u16>>, Refusal> {
        let mut value = None;
        value.read(text, &CPUS).map(|()| value)
    }

    #[test]
    fn a_cpu_list_keeps_its_order_and_folds_its_runs() {
        for text in ["0", "0,2-5", "3,1", "auto", "7-8,0-1"] {
            assert_eq!(cpus(text).unwrap().show(&CPUS), text);
        }
        assert_eq!(cpus("2,3,4").unwrap().show(&CPUS), "2-4");
        assert_eq!(cpus(" 1, 2 ").unwrap(), Some(vec![1, 2]));
    }

    #[test]
    fn a_broken_cpu_list_is_refused() {
        for text in ["", ",", "1,,2", "5-2", "1-2-3", "1,1", "0-3,2", "x", "4096", "0-99999"] {
            assert!(cpus(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn each_way_to_miss_an_address_has_its_own_remedy() {
        let refusal = |text: &str| {
            let mut address: Option<SocketAddr> = None;
            address.read(text, &Unit::Address).unwrap_err()
        };
        assert!(refusal("8888").remedy.starts_with("write 127.0.0.1:8888"));
        assert!(refusal(":8888").remedy.starts_with("write 127.0.0.1:8888"));
        assert!(refusal("127.0.0.1").what.ends_with("has no port"));
        assert!(refusal("::1").what.ends_with("has no port"));
        assert!(refusal("localhost:8888").what.ends_with("names are not resolved"));
        assert!(refusal("127.0.0.1:88888").what.ends_with("not an address with a port"));
        assert!(refusal("").what.ends_with("not an address with a port"));
    }

    #[test]
    fn a_path_is_taken_as_it_is_written() {
        let mut path = Some(PathBuf::from("before"));
        for text in ["/srv/docs", "docs", "./off", "a b/\"ü\"", "7"] {
            path.read(text, &Unit::Directory).unwrap();
            assert_eq!(path.show(&Unit::Directory), text);
        }
        for text in ["", "a\0b", "~", "~/docs"] {
            assert!(path.read(text, &Unit::Directory).is_err(), "{text:?}");
        }
        assert_eq!(path, Some(PathBuf::from("7")));
        path.read("off", &Unit::Directory).unwrap();
        assert_eq!(path, None);
    }

    #[test]
    fn a_near_word_is_proposed_and_a_far_one_gets_the_list() {
        let mut executor = Executor::Native;
        let refusal = executor.read("glomio", &Unit::Switch).unwrap_err();
        assert_eq!(refusal.remedy, "did you mean glommio?");
        let refusal = executor.read("tokio-multi", &Unit::Switch).unwrap_err();
        assert_eq!(refusal.remedy, "write one of auto, native, glommio");
        assert_eq!(executor, Executor::Native);
    }
}
