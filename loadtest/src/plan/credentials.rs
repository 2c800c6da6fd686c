//! HTTP header fields of a plan, including the bearer token.
//!
//! The token comes from a file named in the plan, or from a flag or environment variable. It is
//! never part of a plan or a result, so both can be shared.

use super::{Plan, PlanError};
use crate::mcp::HttpField;
use crate::target::{Target, Transport};

impl Plan {
    /// Returns the header fields of every request to `target`.
    pub(super) fn request_headers(&self, target: &Target) -> Result<Vec<HttpField>, PlanError> {
        let Some(bearer) = self.bearer()? else { return Ok(self.headers.clone()) };
        let has_fields = matches!(target.transport(), Transport::Http | Transport::WebSocket);
        // The parity dialect has a place for it in the handshake.
        if !has_fields && !self.is_parity() {
            return Err(PlanError(format!(
                "{target} has no HTTP header fields to carry a bearer token: remove --bearer, \
                 --bearer-file, bearer_file and CORELANE_LOAD_BEARER"
            )));
        }
        let is_same = |field: &HttpField| field.name().eq_ignore_ascii_case(bearer.name());
        if self.headers.iter().any(is_same) {
            return Err(PlanError::new(
                "both a bearer token and a header Authorization are set: leave one of them out",
            ));
        }
        Ok(self.headers.iter().cloned().chain([bearer]).collect())
    }

    /// Returns the `Authorization` field, if a token is configured.
    fn bearer(&self) -> Result<Option<HttpField>, PlanError> {
        if let Some(token) = &self.bearer {
            return HttpField::bearer(token.reveal())
                .map(Some)
                .map_err(|why| PlanError(why.to_string()));
        }
        let Some(path) = &self.bearer_file else { return Ok(None) };
        let shown = path.display();
        let token = std::fs::read_to_string(path).map_err(|error| {
            PlanError(format!("cannot read {shown}: {error}; name a file that holds the token"))
        })?;
        HttpField::bearer(token.trim_ascii())
            .map(Some)
            .map_err(|why| PlanError(format!("{shown}: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Secret;
    use crate::target::Era;

    fn fields(plan: &Plan) -> Result<Vec<HttpField>, String> {
        plan.request_headers(&plan.target.parse().unwrap()).map_err(|error| error.to_string())
    }

    fn plan(target: &str) -> Plan {
        Plan { bearer: Some(Secret::from("s3cr3t".to_owned())), ..Plan::new(target) }
    }

    #[test]
    fn bearer_token_is_sent_over_http_only() {
        for target in ["http://localhost", "https://localhost", "ws://localhost", "wss://x"] {
            let fields = fields(&plan(target)).unwrap();
            assert_eq!(fields, [HttpField::bearer("s3cr3t").unwrap()]);
        }
        for target in ["tcp://localhost:1", "tls://localhost:1", "stdio:x"] {
            let why = fields(&plan(target)).unwrap_err();
            assert!(why.contains("--bearer") && !why.contains("s3cr3t"), "{why}");
            assert!(fields(&Plan { era: Some(Era::Parity), ..plan(target) }).is_ok());
        }
    }

    #[test]
    fn bearer_token_is_hidden_in_debug_and_toml() {
        let plan = plan("http://localhost");
        let shown = format!("{plan:?}{}", toml::to_string(&plan).unwrap());
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }

    #[test]
    fn token_and_authorization_header_together_are_rejected() {
        let mut plan = plan("http://localhost");
        plan.headers.push(HttpField::parse("authorization: Basic eDp5").unwrap());
        let why = fields(&plan).unwrap_err();
        assert!(why.contains("leave one") && !why.contains("eDp5"), "{why}");
    }

    #[test]
    fn invalid_token_error_hides_the_token() {
        let invalid = Some(Secret::from("s3cr3t\r\nX: y".to_owned()));
        let why = fields(&Plan { bearer: invalid, ..plan("http://x") }).unwrap_err();
        assert!(why.lines().count() == 1 && !why.contains("s3cr3t"), "{why}");
        let file = Some("/nowhere.token".into());
        let why = fields(&Plan { bearer_file: file, ..Plan::new("http://x") }).unwrap_err();
        assert!(why.contains("cannot read /nowhere.token"), "{why}");
    }
}
