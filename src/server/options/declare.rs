//! The declaration of options: field, default, key, flag, variable and help in one place.
//!
//! An entry of `options!` declares one option:
//!
//! ```text
//! /// What the option does: help of its flag, and beginning of the documentation of its field.
//! ///
//! /// What only a program needs to know: documentation of the field.
//! #[option("tcp.connections_max", Count { min: 1, max: 10_000_000 }, reload)]
//! #[cost = "less than 1 KiB of memory and one socket each"]
//! #[source = "RFC 9110, section 15.6.4"]
//! pub connections_max: u32 = 1024, tiny 4;
//! ```
//!
//! - The key is that of the file; flag and variable follow from it. `"tcp.address" | "tcp"` has a
//!   shorter name for both.
//! - The unit is a variant of [`Unit`] and defines notation and range. The type of the field has a
//!   [`Value`] for it.
//! - SIGHUP applies a new value of `reload`; `restart` is fixed until the process starts again.
//! - The cost is that of a higher value. The source is a specification, an RFC section or a man
//!   page; none is Corelane.
//! - The default is that of [`Profile::Standard`](super::Profile); behind `tiny` is that of
//!   [`Profile::Tiny`](super::Profile), if it differs.
//!
//! Options stand in groups, from which `config::table` makes the sections of `--help`. Beside its
//! declaration an option needs what reads its field, its row in docs/options.md, which
//! `CORELANE_WRITE_OPTIONS=1 cargo test --lib config::` writes, and a line in CHANGELOG.md.

use super::Options;
use super::unit::Unit;
use super::value::Value;

/// One option, as the configuration sees it.
#[derive(Debug)]
pub struct Row {
    /// Key in the file, with its sections: `tcp.connections_max`.
    pub key: &'static str,
    /// Shorter name for flag and variable: `tcp` for `tcp.address`. The key is one, too.
    pub short: Option<&'static str>,
    /// Unit and range of the value.
    pub unit: Unit,
    /// Returns the field that the option sets.
    pub field: fn(&mut Options) -> &mut dyn Value,
    /// Whether SIGHUP applies a new value; otherwise the process must be restarted.
    #[cfg(feature = "cli")]
    pub is_reloadable: bool,
    /// Lines of the documentation of the field; the first paragraph is the help.
    #[cfg(feature = "cli")]
    pub docs: &'static [&'static str],
    /// What a higher value costs.
    #[cfg(feature = "cli")]
    pub cost: &'static str,
    /// Specification, RFC section or man page behind the option; `Corelane` if there is none.
    #[cfg(feature = "cli")]
    pub source: &'static str,
}

/// Declares a struct of options, or the rows of a struct that is declared elsewhere.
macro_rules! options {
    (@row [$($doc:literal)+] $key:literal [$($short:literal)?] [$($unit:tt)+] $apply:ident
        $cost:literal [$($source:literal)?] $field:expr) => {
        $crate::server::options::declare::Row {
            key: $key,
            short: options!(@first $(Some($short),)? None),
            unit: $crate::server::options::unit::Unit::$($unit)+,
            field: $field,
            #[cfg(feature = "cli")]
            is_reloadable: options!(@is_reloadable $apply),
            #[cfg(feature = "cli")]
            docs: &[$($doc),+],
            #[cfg(feature = "cli")]
            cost: $cost,
            #[cfg(feature = "cli")]
            source: options!(@first $($source,)? "Corelane"),
        }
    };
    (@first $first:expr $(, $rest:expr)*) => { $first };
    (@is_reloadable reload) => { true };
    (@is_reloadable restart) => { false };
    (
        $(#[$meta:meta])*
        pub struct $name:ident at |$options:ident| $path:expr;
        $(group $group:ident {$(
            $(#[doc = $doc:literal])+
            #[option($key:literal $(| $short:literal)?,
                $unit:ident $(($($names:tt)+))? $({ $($range:tt)+ })?, $apply:ident)]
            #[cost = $cost:literal]
            $(#[source = $source:literal])?
            pub $field:ident: $type:ty = $default:expr $(, tiny $tiny:expr)?;
        )+})+
        $(nested {$(
            $(#[doc = $part_doc:literal])+
            pub $part:ident: $part_type:ty = $part_default:expr, tiny $part_tiny:expr;
        )+})?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(
                $(#[doc = $doc])+
                ///
                #[doc = concat!("Default: `", stringify!($default), "`. Cost: ", $cost, ".")]
                $(#[doc = concat!("Source: ", $source, ".")])?
                #[doc = concat!("Key: `", $key, "`.")]
                pub $field: $type,
            )+)+
            $($(
                $(#[doc = $part_doc])+
                pub $part: $part_type,
            )+)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($($field: $default,)+)+ $($($part: $part_default,)+)? }
            }
        }

        impl $name {
            $(pub(crate) const $group: &'static [$crate::server::options::declare::Row] = &[$(
                options!(@row [$($doc)+] $key [$($short)?]
                    [$unit $(($($names)+))? $({ $($range)+ })?] $apply $cost [$($source)?]
                    |$options| &mut $path.$field),
            )+];)+

            /// Returns the defaults of the profile for tests.
            pub(super) fn tiny() -> Self {
                Self {
                    $($($field: options!(@first $($tiny,)? $default),)+)+
                    $($($part: $part_tiny,)+)?
                }
            }
        }
    };
    (
        rows at |$options:ident| $path:expr;
        $(group $group:ident {$(
            $(#[doc = $doc:literal])+
            #[option($key:literal $(| $short:literal)?,
                $unit:ident $(($($names:tt)+))? $({ $($range:tt)+ })?, $apply:ident)]
            #[cost = $cost:literal]
            $(#[source = $source:literal])?
            $field:ident;
        )+})+
    ) => {
        $(pub(crate) const $group: &[$crate::server::options::declare::Row] = &[$(
            options!(@row [$($doc)+] $key [$($short)?]
                [$unit $(($($names)+))? $({ $($range)+ })?] $apply $cost [$($source)?]
                |$options| &mut $path.$field),
        )+];)+
    };
}

pub(super) use options;

/// One minute in milliseconds.
pub(super) const MINUTE: u64 = 60_000;
/// One day in milliseconds.
pub(super) const DAY: u64 = 24 * 60 * MINUTE;
/// 1,024 bytes.
pub(super) const KIB: u64 = 1 << 10;
/// 1,024 KiB.
pub(super) const MIB: u64 = 1 << 20;
/// 1,024 MiB.
pub(super) const GIB: u64 = 1 << 30;
