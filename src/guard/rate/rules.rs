//! Rules: which requests are limited together, and how many of them are admitted.
//!
//! A rule is one line: `method [name] rate=LIMIT/PERIOD [burst=N] [per=KEYS]`, such as `tools/call
//! deploy_* rate=5/min per=principal`. Method and name may contain `*`, which stands for any text.
//! Each value of the keys has a bucket of its own; without keys all requests of the rule share one.

use std::fmt::Write;
use std::num::NonZeroU32;

use corelane_protocol::eras::{ClientNotification, Method};

use super::bucket::Quota;
use crate::guard::pattern::{NamePattern, Pattern, TargetName, TargetUri};

/// The rules of a server.
#[derive(Clone, Debug, Default)]
pub struct RateRules {
    rules: Vec<RateRule>,
    /// The rules that apply to each method, one bit each.
    by_method: [u32; Method::ALL.len()],
    /// A rule limits each tool by itself.
    needs_tool: bool,
    /// A rule is for requests of some names.
    needs_name: bool,
}

#[derive(Clone, Debug)]
pub(super) struct RateRule {
    /// The words of the line, by which a rule that a reload does not change keeps its buckets.
    pub(super) text: Box<str>,
    /// What the rule is called in header fields.
    pub(super) policy: Box<str>,
    pub(super) quota: Quota,
    pub(super) keys: Keys,
    method: Pattern,
    name: Option<NamePattern>,
}

/// What has a limit of its own, one bit each.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Keys(u8);

/// The method of a request or notification.
#[derive(Clone, Copy, Debug)]
pub enum LimitedMethod<'a> {
    /// A request.
    Request(Method),
    /// A notification, by its name on the wire.
    Notification(&'a str),
    /// Another request.
    Other(OtherRequest),
}

/// A request that is no message of MCP, by the name that rules have for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OtherRequest {
    /// GET of the list of open connections.
    Connections,
    /// DELETE of a session.
    DeleteSession,
    /// GET of the metadata of the protected resource.
    Metadata,
    /// GET of all counters.
    Metrics,
    /// OPTIONS.
    Options,
    /// GET of the HTML page.
    Page,
    /// GET of the counters on the page.
    Status,
    /// GET of an event stream.
    Stream,
    /// A request that is refused by its head or its session, such as one of an unknown path.
    Refused,
    /// GET that is upgraded to WebSocket.
    Upgrade,
    /// GET of the list of the servers behind this one, or POST of a change of one.
    Upstreams,
    /// DELETE of a session of the parity dialect.
    ParityDelete,
    /// GET of an event stream of the parity dialect.
    ParityEvents,
    /// A handshake of the parity dialect.
    ParityHandshake,
    /// GET of a JSON Schema of the parity dialect.
    ParitySchemas,
}

impl OtherRequest {
    const ALL: [Self; 15] = [
        Self::Connections,
        Self::DeleteSession,
        Self::Metadata,
        Self::Metrics,
        Self::Options,
        Self::Page,
        Self::Status,
        Self::Stream,
        Self::Refused,
        Self::Upgrade,
        Self::Upstreams,
        Self::ParityDelete,
        Self::ParityEvents,
        Self::ParityHandshake,
        Self::ParitySchemas,
    ];

    /// Returns the name in rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connections => "http/connections",
            Self::DeleteSession => "http/delete",
            Self::Metadata => "http/metadata",
            Self::Metrics => "http/metrics",
            Self::Options => "http/options",
            Self::Page => "http/page",
            Self::Status => "http/status",
            Self::Stream => "http/stream",
            Self::Refused => "http/refused",
            Self::Upgrade => "http/upgrade",
            Self::Upstreams => "http/upstreams",
            Self::ParityDelete => "parity/delete",
            Self::ParityEvents => "parity/events",
            Self::ParityHandshake => "parity/handshake",
            Self::ParitySchemas => "parity/schemas",
        }
    }
}

/// What a request is for, as rules of rates name it.
#[derive(Clone, Copy, Debug)]
pub struct RateTarget<'a> {
    /// The method.
    pub method: LimitedMethod<'a>,
    /// The name of the tool or prompt; empty if there is none.
    pub name: &'a str,
    /// The URI of the resource, with its query and without, instead of a name.
    pub uri: Option<&'a [TargetUri<'a>; 2]>,
    /// The name of a tool that exists. Others are limited together.
    pub tool: &'a str,
}

impl Keys {
    pub(super) const PRINCIPAL: Self = Self(1);
    pub(super) const ADDRESS: Self = Self(1 << 1);
    pub(super) const SESSION: Self = Self(1 << 2);
    pub(super) const METHOD: Self = Self(1 << 3);
    pub(super) const TOOL: Self = Self(1 << 4);

    const NAMES: [(&'static str, Self); 5] = [
        ("principal", Self::PRINCIPAL),
        ("address", Self::ADDRESS),
        ("session", Self::SESSION),
        ("method", Self::METHOD),
        ("tool", Self::TOOL),
    ];

    #[inline]
    pub(super) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut keys = Self::default();
        for word in text.split('+') {
            let known = Self::NAMES.iter().find(|(name, _)| *name == word);
            let Some((_, key)) = known else {
                return Err(format!(
                    "\"{word}\" is not principal, address, session, method or tool"
                ));
            };
            keys.0 |= key.0;
        }
        Ok(keys)
    }

    /// Returns the name of a policy with these keys.
    fn policy(self) -> String {
        let names = Self::NAMES.iter().filter(|(_, key)| self.contains(*key));
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        if names.is_empty() { "all".to_owned() } else { names.join("+") }
    }
}

impl RateRules {
    /// Parses rules.
    ///
    /// # Errors
    ///
    /// Which line is malformed, and why; or there are too many.
    pub fn parse(lines: &[String]) -> Result<Self, String> {
        if lines.len() > RULES_MAX {
            return Err(format!("there are {} rules (limit {RULES_MAX})", lines.len()));
        }
        let mut all = Self::default();
        for line in lines {
            let mut rule = parse_rule(line).map_err(|what| format!("\"{line}\": {what}"))?;
            let named = |policy: &str| all.rules.iter().any(|rule| &*rule.policy == policy);
            if named(&rule.policy) {
                let numbers = 2..;
                let mut names = numbers.map(|number| format!("{}-{number}", rule.policy));
                if let Some(name) = names.find(|name| !named(name)) {
                    rule.policy = name.into();
                }
            }
            for method in Method::ALL {
                let applies = rule.method.matches(method.as_str())
                    && (method == Method::ToolsCall || !rule.keys.contains(Keys::TOOL));
                all.by_method[method as usize] |= u32::from(applies) << all.rules.len();
            }
            all.needs_tool |= rule.keys.contains(Keys::TOOL);
            all.needs_name |= rule.name.is_some();
            all.rules.push(rule);
        }
        Ok(all)
    }

    /// Returns whether nothing is limited.
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns whether a rule limits each tool by itself.
    #[inline]
    pub const fn needs_tool(&self) -> bool {
        self.needs_tool
    }

    /// Returns whether a rule is for requests of some names.
    #[inline]
    pub const fn needs_name(&self) -> bool {
        self.needs_name
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &RateRule> {
        self.rules.iter()
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&RateRule> {
        self.rules.get(index)
    }

    /// Returns the rules for a method, one bit each.
    #[inline]
    pub(super) fn for_method(&self, method: LimitedMethod<'_>) -> u32 {
        match method {
            LimitedMethod::Request(method) => self.by_method[method as usize],
            LimitedMethod::Notification(name) => self.for_name(name),
            LimitedMethod::Other(request) => self.for_name(request.as_str()),
        }
    }

    /// Returns the rules for what is no request of MCP, one bit each.
    fn for_name(&self, name: &str) -> u32 {
        let mut applying = 0;
        for (index, rule) in self.rules.iter().enumerate() {
            let applies = !rule.keys.contains(Keys::TOOL) && rule.method.matches(name);
            applying |= u32::from(applies) << index;
        }
        applying
    }
}

impl RateRule {
    /// Returns whether the rule is for requests of some names.
    pub(super) const fn has_name(&self) -> bool {
        self.name.is_some()
    }

    /// Returns whether the rule, which is for the method of `target`, is for its name.
    #[inline(never)]
    pub(super) fn is_for_name(&self, target: &RateTarget<'_>) -> bool {
        let Some(name) = &self.name else { return true };
        match target.uri {
            Some(forms) => forms.iter().any(|form| name.matches(TargetName::Uri(form))),
            None => name.matches(TargetName::Name(target.name)),
        }
    }
}

/// Parses a quota: `rate=LIMIT/PERIOD [burst=N]`. The burst is the limit by default.
///
/// # Errors
///
/// What is malformed.
pub fn parse_quota(line: &str) -> Result<Quota, String> {
    let words = Words::parse(line.split_ascii_whitespace())?;
    if words.keys.is_some() {
        return Err("per=KEYS is not allowed here".to_owned());
    }
    words.quota()
}

fn parse_rule(line: &str) -> Result<RateRule, String> {
    let mut words = line.split_ascii_whitespace().peekable();
    let method = words.next().filter(|word| !word.contains('=')).ok_or("the method is missing")?;
    let is_setting = |word: &&str| SETTINGS.iter().any(|setting| word.starts_with(setting));
    let name = words.next_if(|word| !is_setting(word)).map(NamePattern::new);
    let settings = Words::parse(words)?;
    let keys = settings.keys.unwrap_or_default();
    let mut text = String::new();
    for word in line.split_ascii_whitespace() {
        write!(text, "{word} ").ok();
    }
    let quota = settings.quota()?;
    let is_other = |pattern: &Pattern| {
        let mut others = OtherRequest::ALL.iter().map(|request| request.as_str());
        others.any(|name| pattern.matches(name))
            || ClientNotification::NAMES.iter().any(|name| pattern.matches(name))
    };
    let method = Pattern::of_methods(method, is_other)?;
    let policy = keys.policy().into();
    Ok(RateRule { text: text.into(), policy, quota, keys, method, name })
}

/// The settings of a line.
#[derive(Default)]
struct Words {
    rate: Option<(NonZeroU32, NonZeroU32)>,
    burst: Option<NonZeroU32>,
    keys: Option<Keys>,
}

impl Words {
    fn parse<'w>(words: impl Iterator<Item = &'w str>) -> Result<Self, String> {
        let mut settings = Self::default();
        for word in words {
            let is_again = match word.split_once('=') {
                Some(("rate", rate)) => settings.rate.replace(parse_rate(rate)?).is_some(),
                Some(("burst", burst)) => {
                    let burst = parse_number(burst, BURST_MAX)?;
                    settings.burst.replace(burst).is_some()
                }
                Some(("per", keys)) => settings.keys.replace(Keys::parse(keys)?).is_some(),
                _ => {
                    return Err(format!(
                        "\"{word}\" is not rate=LIMIT/PERIOD, burst=N or per=KEYS"
                    ));
                }
            };
            if is_again {
                return Err(format!("\"{word}\" is set twice"));
            }
        }
        Ok(settings)
    }

    fn quota(&self) -> Result<Quota, String> {
        let (limit, seconds) = self.rate.ok_or("rate=LIMIT/PERIOD is missing, such as 100/s")?;
        Ok(Quota { limit, seconds, burst: self.burst.unwrap_or(limit) })
    }
}

/// Parses a rate, such as `100/s` or `5/10min`.
fn parse_rate(text: &str) -> Result<(NonZeroU32, NonZeroU32), String> {
    let malformed = || format!("\"{text}\" is not a rate, such as 100/s, 5/min or 1000/12h");
    let (limit, period) = text.split_once('/').ok_or_else(malformed)?;
    let digits = period.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = period.split_at(digits);
    let factor = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(malformed()),
    };
    let limit = parse_number(limit, LIMIT_MAX)?;
    let count = if count.is_empty() { NonZeroU32::MIN } else { parse_number(count, PERIOD_MAX)? };
    let seconds = count.get().checked_mul(factor).filter(|seconds| *seconds <= PERIOD_MAX);
    let seconds = seconds.and_then(NonZeroU32::new);
    let seconds = seconds.ok_or_else(|| format!("\"{period}\" is longer than 30 days"))?;
    Ok((limit, seconds))
}

fn parse_number(text: &str, max: u32) -> Result<NonZeroU32, String> {
    let number = text.parse::<u32>().ok().filter(|number| *number <= max);
    let number = number.and_then(NonZeroU32::new);
    number.ok_or_else(|| format!("\"{text}\" is not a number from 1 to {max}"))
}

const SETTINGS: [&str; 3] = ["rate=", "burst=", "per="];

/// Rules that a server may have: each costs a comparison with each request of its method.
const RULES_MAX: usize = 32;

/// Requests of a period. Above it the time that a request costs, in whole nanoseconds, would be too
/// far from the exact one.
const LIMIT_MAX: u32 = 10_000_000;
/// Requests at once.
const BURST_MAX: u32 = 1_000_000_000;
/// Seconds of a period: 30 days.
const PERIOD_MAX: u32 = 30 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &[&str]) -> Result<RateRules, String> {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        RateRules::parse(&lines)
    }

    #[test]
    fn rule_has_method_name_quota_and_keys() {
        let rules = parse(&["tools/call deploy_* rate=5/10min burst=2 per=principal+tool"]);
        let rules = rules.unwrap();
        let rule = rules.get(0).unwrap();
        let Quota { limit, seconds, burst } = rule.quota;
        assert_eq!([limit, seconds, burst].map(NonZeroU32::get), [5, 600, 2]);
        assert!(rule.keys.contains(Keys::PRINCIPAL) && rule.keys.contains(Keys::TOOL));
        assert!(!rule.keys.contains(Keys::ADDRESS));
        let target = |name| RateTarget {
            method: LimitedMethod::Request(Method::ToolsCall),
            name,
            uri: None,
            tool: "",
        };
        assert!(rule.is_for_name(&target("deploy_x")));
        assert!(!rule.is_for_name(&target("%64eploy_x")) && !rule.is_for_name(&target("x")));
    }

    #[test]
    fn burst_is_limit_by_default() {
        assert_eq!(parse_quota("rate=7/s").unwrap().burst.get(), 7);
        assert_eq!(parse_quota("burst=2 rate=7/d").unwrap().seconds.get(), 86_400);
    }

    #[test]
    fn rules_apply_by_method_pattern() {
        let rules = parse(&["* rate=1/s", "tools/* rate=1/s", "* rate=1/s per=tool"]).unwrap();
        let of = |method| rules.for_method(LimitedMethod::Request(method));
        assert_eq!(of(Method::ToolsCall), 0b111);
        assert_eq!(of(Method::ToolsList), 0b011);
        assert_eq!(of(Method::Ping), 0b001);
        let notification = LimitedMethod::Notification("notifications/progress");
        assert_eq!(rules.for_method(notification), 0b001);
    }

    #[test]
    fn policies_have_different_names() {
        let lines = ["* rate=1/s", "ping rate=1/s", "* rate=1/s per=address", "ping rate=1/s"];
        let rules = parse(&lines).unwrap();
        let names: Vec<&str> = rules.iter().map(|rule| &*rule.policy).collect();
        assert_eq!(names, ["all", "all-2", "address", "all-3"]);
    }

    #[test]
    fn malformed_rule_is_rejected() {
        for (line, what) in [
            ("", "the method is missing"),
            ("rate=1/s", "the method is missing"),
            ("*", "rate=LIMIT/PERIOD is missing, such as 100/s"),
            ("* a b rate=1/s", "\"b\" is not rate=LIMIT/PERIOD, burst=N or per=KEYS"),
            ("* rate=0/s", "\"0\" is not a number from 1 to 10000000"),
            ("* rate=1/m", "\"1/m\" is not a rate, such as 100/s, 5/min or 1000/12h"),
            ("* rate=1", "\"1\" is not a rate, such as 100/s, 5/min or 1000/12h"),
            ("* rate=1/31d", "\"31d\" is longer than 30 days"),
            ("* rate=1/s burst=-1", "\"-1\" is not a number from 1 to 1000000000"),
            ("* rate=1/s rate=2/s", "\"rate=2/s\" is set twice"),
            ("* rate=1/s per=ip", "\"ip\" is not principal, address, session, method or tool"),
        ] {
            assert_eq!(parse(&[line]).unwrap_err(), format!("\"{line}\": {what}"));
        }
        assert!(parse(&["* rate=1/s"; 33]).is_err());
        assert!(parse_quota("rate=1/s per=address").is_err());
    }
}
