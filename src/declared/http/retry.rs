//! When a request is sent again.

use std::time::Duration;

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, StatusCode};

use super::declaration::RetryDeclaration;
use crate::declared::problem::Problem;
use crate::server::options::unit::Unit;

/// Requests at most.
const ATTEMPTS_DEFAULT: u32 = 3;
const ATTEMPTS_MAX: u32 = 10;
const WAIT_DEFAULT: Duration = Duration::from_secs(10);
/// Wait before the second request; it doubles with each further one.
const WAIT_FIRST: Duration = Duration::from_millis(200);
const WAIT: Unit = Unit::Milliseconds { min: 0, max: 3_600_000 };

/// When a request is sent again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct RetryPolicy {
    attempts: u32,
    wait_max: Duration,
    is_idempotent: bool,
}

impl RetryPolicy {
    /// The policy of a declaration.
    ///
    /// # Errors
    ///
    /// A value is out of range.
    pub(super) fn new(declaration: &RetryDeclaration) -> Result<Self, Problem> {
        let attempts = declaration.attempts.unwrap_or(ATTEMPTS_DEFAULT);
        if !(1..=ATTEMPTS_MAX).contains(&attempts) {
            let hint = format!("write 1 to {ATTEMPTS_MAX}");
            return Err(Problem::new("retry.attempts", format!("is {attempts}"), hint));
        }
        let wait_max = match &declaration.wait {
            Some(wait) => Duration::from_millis(wait.parse("retry.wait", &WAIT)?),
            None => WAIT_DEFAULT,
        };
        Ok(Self { attempts, wait_max, is_idempotent: declaration.idempotent })
    }

    /// Whether a request of this method is sent again after `attempt` requests.
    pub(super) fn allows(&self, method: &Method, attempt: u32) -> bool {
        let is_safe = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let is_repeatable = matches!(*method, Method::PUT | Method::DELETE) && self.is_idempotent;
        attempt < self.attempts && (is_safe || is_repeatable)
    }

    /// The wait after `attempt` requests, `None` if the server asks for more than is allowed.
    pub(super) fn wait(&self, attempt: u32, headers: Option<&HeaderMap>) -> Option<Duration> {
        match headers.and_then(retry_after) {
            Some(wait) => (wait <= self.wait_max).then_some(wait),
            None => Some((WAIT_FIRST * (1 << (attempt - 1).min(8))).min(self.wait_max)),
        }
    }
}

/// Whether the status asks for a later request.
pub(super) fn is_temporary(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// The wait that `Retry-After` asks for: seconds, or the time between the header `Date` and a date.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = parse_date(text)?;
    let now = parse_date(headers.get(DATE)?.to_str().ok()?)?;
    Some(Duration::from_secs(u64::try_from(date.saturating_sub(now)).unwrap_or(0)))
}

/// Seconds of an IMF-fixdate (RFC 9110 section 5.6.7) since the year 0.
fn parse_date(text: &str) -> Option<i64> {
    let mut words = text.split_once(", ")?.1.split(' ');
    let day: i64 = words.next()?.parse().ok()?;
    let names = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let name = words.next().filter(|name| name.len() == 3)?;
    let month = i64::try_from(names.find(name)? / 3 + 1).ok()?;
    let year: i64 = words.next()?.parse().ok()?;
    let mut time = words.next()?.split(':').map(|number| number.parse::<i64>().ok());
    let (hours, minutes, seconds) = (time.next()??, time.next()??, time.next()??);
    let valid = (1..=31).contains(&day) && (0..=9999).contains(&year) && hours < 24 && minutes < 60;
    if words.next() != Some("GMT") || !valid {
        return None;
    }
    // Days before a month, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    Some(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn headers(retry_after: &'static str, date: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static(retry_after));
        headers.insert(DATE, HeaderValue::from_static(date));
        headers
    }

    #[test]
    fn retry_after_is_seconds_or_date() {
        let date = "Mon, 29 Feb 2024 23:59:58 GMT";
        let seconds = |text| retry_after(&headers(text, date)).map(|wait| wait.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds("Fri, 01 Mar 2024 00:00:03 GMT"), Some(5));
        assert_eq!(seconds("Fri, 01 Mar 2023 00:00:03 GMT"), Some(0));
        assert_eq!(seconds("soon"), None);
    }

    #[test]
    fn wait_is_bounded() {
        let policy = RetryPolicy::new(&RetryDeclaration::default()).unwrap();
        assert_eq!(policy.wait(1, None), Some(Duration::from_millis(200)));
        assert_eq!(policy.wait(9, None), Some(WAIT_DEFAULT));
        assert_eq!(policy.wait(1, Some(&headers("11", ""))), None);
    }

    #[test]
    fn only_safe_methods_are_repeated() {
        let policy = RetryPolicy::new(&RetryDeclaration::default()).unwrap();
        assert!(policy.allows(&Method::GET, 2) && !policy.allows(&Method::GET, 3));
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
            assert!(!policy.allows(&method, 1), "{method}");
        }
        let idempotent = RetryDeclaration { idempotent: true, ..RetryDeclaration::default() };
        let policy = RetryPolicy::new(&idempotent).unwrap();
        assert!(policy.allows(&Method::PUT, 1) && policy.allows(&Method::DELETE, 1));
        assert!(!policy.allows(&Method::POST, 1));
    }
}
