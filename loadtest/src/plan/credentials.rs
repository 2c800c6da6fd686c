//! The fields of HTTP that a plan has requests carry, the bearer token among them.
//!
//! A token comes from a file that a plan names, or from whoever runs it; it never stands in a plan,
//! so a plan can be shown to anyone, and so can its result.

use super::{Plan, Wrong};
use crate::dialogue::Field;
use crate::target::{Target, Transport};

impl Plan {
    /// The fields of every request to this target.
    pub(super) fn speech_fields(&self, target: &Target) -> Result<Vec<Field>, Wrong> {
        let Some(bearer) = self.bearer()? else { return Ok(self.fields.clone()) };
        if !matches!(target.transport(), Transport::Http | Transport::WebSocket) {
            return Err(Wrong(format!(
                "a bearer token goes in a field of HTTP, and {target} has none: leave out \
                 --bearer, --bearer-file, bearer_file and CORELANE_LOAD_BEARER"
            )));
        }
        let is_same = |field: &Field| field.name().eq_ignore_ascii_case(bearer.name());
        if self.fields.iter().any(is_same) {
            return Err(Wrong::new(
                "there is a bearer token and a field Authorization: leave one of them out",
            ));
        }
        Ok(self.fields.iter().cloned().chain([bearer]).collect())
    }

    /// The field with the token, where there is one.
    fn bearer(&self) -> Result<Option<Field>, Wrong> {
        if let Some(token) = &self.bearer {
            return Field::bearer(token.reveal()).map(Some).map_err(|why| Wrong(why.to_string()));
        }
        let Some(path) = &self.bearer_file else { return Ok(None) };
        let shown = path.display();
        let token = std::fs::read_to_string(path).map_err(|error| {
            Wrong(format!("{shown} cannot be read: {error}; name a file that holds the token"))
        })?;
        Field::bearer(token.trim_ascii()).map(Some).map_err(|why| Wrong(format!("{shown}: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::Secret;

    fn fields(plan: &Plan) -> Result<Vec<Field>, String> {
        plan.speech_fields(&plan.target.parse().unwrap()).map_err(|error| error.to_string())
    }

    fn plan(target: &str) -> Plan {
        Plan { bearer: Some(Secret::from("s3cr3t".to_owned())), ..Plan::new(target) }
    }

    #[test]
    fn a_token_goes_with_every_request_over_http_and_nowhere_else() {
        for target in ["http://localhost", "https://localhost", "ws://localhost", "wss://x"] {
            let fields = fields(&plan(target)).unwrap();
            assert_eq!(fields, [Field::bearer("s3cr3t").unwrap()]);
        }
        for target in ["tcp://localhost:1", "tls://localhost:1", "stdio:x"] {
            let why = fields(&plan(target)).unwrap_err();
            assert!(why.contains("--bearer") && !why.contains("s3cr3t"), "{why}");
        }
    }

    #[test]
    fn a_token_is_neither_shown_nor_written() {
        let plan = plan("http://localhost");
        let shown = format!("{plan:?}{}", toml::to_string(&plan).unwrap());
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }

    #[test]
    fn two_credentials_are_one_too_many() {
        let mut plan = plan("http://localhost");
        plan.fields.push(Field::parse("authorization: Basic eDp5").unwrap());
        let why = fields(&plan).unwrap_err();
        assert!(why.contains("leave one") && !why.contains("eDp5"), "{why}");
    }

    #[test]
    fn what_is_no_token_is_told_without_it() {
        let odd = Some(Secret::from("s3cr3t\r\nX: y".to_owned()));
        let why = fields(&Plan { bearer: odd, ..plan("http://x") }).unwrap_err();
        assert!(why.lines().count() == 1 && !why.contains("s3cr3t"), "{why}");
        let file = Some("/nowhere.token".into());
        let why = fields(&Plan { bearer_file: file, ..Plan::new("http://x") }).unwrap_err();
        assert!(why.contains("/nowhere.token cannot be read"), "{why}");
    }
}
