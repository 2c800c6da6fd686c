//! When certificates of the server expire.

/// Time before the end of a certificate from which on it is reported.
const WARNING_SECONDS: i64 = 14 * DAY_SECONDS;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The end of the validity of a certificate with its chain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CertificateExpiry {
    /// The file that it is read from.
    pub file: String,
    /// Seconds since 1970-01-01 UTC.
    pub at: i64,
}

impl CertificateExpiry {
    /// Returns a sentence if the certificate has expired at `now`, in the same unit, or will in two
    /// weeks.
    pub fn warning(&self, now: i64) -> Option<String> {
        let Self { file, at } = self;
        let left = at.saturating_sub(now);
        match left {
            ..0 => Some(format!("the certificate {file} has expired: renew it")),
            0..DAY_SECONDS => Some(format!("the certificate {file} expires today: renew it")),
            DAY_SECONDS..WARNING_SECONDS => {
                let days = left / DAY_SECONDS;
                let plural = if days == 1 { "" } else { "s" };
                Some(format!("the certificate {file} expires in {days} day{plural}: renew it"))
            }
            WARNING_SECONDS.. => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_within_two_weeks_is_reported() {
        let certificate = CertificateExpiry { file: "a.pem".into(), at: 20 * DAY_SECONDS };
        for (now, part) in [
            (0, None),
            (6 * DAY_SECONDS, None),
            (6 * DAY_SECONDS + 1, Some("expires in 13 days")),
            (18 * DAY_SECONDS + 1, Some("expires in 1 day:")),
            (19 * DAY_SECONDS + 1, Some("expires today")),
            (20 * DAY_SECONDS + 1, Some("has expired")),
            (i64::MAX, Some("has expired")),
        ] {
            let warning = certificate.warning(now);
            assert_eq!(warning.is_some(), part.is_some(), "{now}");
            assert!(warning.unwrap_or_default().contains(part.unwrap_or_default()), "{now}");
        }
    }
}
