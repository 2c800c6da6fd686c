//! Which requests a caller may make: rules by method and name, with scopes and tiers.
//!
//! A rule is one line: `method [name] requirement…`, such as `tools/call deploy_* scope=deploy
//! tier=admin mfa`. Method and name may contain `*`, which stands for any text. A rule without a
//! name applies to every request of the method. All rules that apply to a request must be
//! satisfied.

use std::fmt;

use corelane_base::principal::{ANONYMOUS_TIER, Principal, USER_TIER};

use crate::guard::pattern::{NamePattern, Pattern, TargetName, TargetUri};

/// The rules of a server.
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    rules: Vec<AccessRule>,
    /// Tiers, the lowest first.
    tiers: Vec<Box<str>>,
    /// A scope, and those that it implies.
    implied: Vec<(Box<str>, Vec<Box<str>>)>,
    /// Tools whose calls are logged.
    audited: Vec<Pattern>,
}

#[derive(Clone, Debug)]
struct AccessRule {
    method: Pattern,
    name: Option<NamePattern>,
    scopes: Vec<Box<str>>,
    /// Index of the lowest tier.
    tier: Option<usize>,
    /// Whether the token must prove several factors (`amr`, RFC 8176).
    needs_mfa: bool,
    /// The context in which the token must have been issued (`acr`, RFC 9470).
    context: Option<Box<str>>,
}

/// What a request is for, as access rules name it.
#[derive(Clone, Copy, Debug)]
pub struct AccessTarget<'a> {
    /// The method, such as `tools/call`.
    pub method: &'a str,
    /// The tool, prompt or resource.
    pub name: TargetName<'a>,
    /// Scopes that the tool itself requires.
    pub scopes: &'a [Box<str>],
}

/// Why a caller may not make a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AccessDenied {
    /// All scopes that the target needs, separated by spaces. Empty if it needs none.
    pub scopes: Box<str>,
    /// What is missing, for people.
    pub reason: Box<str>,
    /// Whether nothing is missing but the proof of a second factor, or of the context of `acr`.
    pub is_second_factor: bool,
}

impl fmt::Display for AccessDenied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl AccessRules {
    /// Parses rules, tiers from the lowest to the highest, and lines with a scope and those that it
    /// implies, separated by spaces. Without tiers they are `anonymous`, `user` and `admin`.
    ///
    /// # Errors
    ///
    /// Which line is malformed, and why.
    pub fn parse(rules: &[String], tiers: &[String], implied: &[String]) -> Result<Self, String> {
        let mut all = Self::default();
        let names = tiers.iter().map(String::as_str);
        all.tiers = names.map(Box::from).collect();
        if all.tiers.is_empty() {
            all.tiers = [ANONYMOUS_TIER, USER_TIER, ADMIN_TIER].map(Box::from).to_vec();
        }
        for line in implied {
            let mut scopes = line.split_ascii_whitespace();
            let (Some(scope), true) =
                (scopes.next(), line.split_ascii_whitespace().all(super::is_scope))
            else {
                return Err(format!("\"{line}\" is not a scope with those that it implies"));
            };
            all.implied.push((scope.into(), scopes.map(Box::from).collect()));
        }
        for line in rules {
            let rule = all.parse_rule(line).map_err(|what| format!("\"{line}\": {what}"))?;
            all.rules.push(rule);
        }
        Ok(all)
    }

    fn parse_rule(&self, line: &str) -> Result<AccessRule, String> {
        let mut words = line.split_ascii_whitespace().peekable();
        let method =
            words.next().filter(|word| !word.contains('=')).ok_or("the method is missing")?;
        let method = Pattern::of_methods(method, |_| false)?;
        let name = words.next_if(|word| !is_requirement(word)).map(NamePattern::new);
        let (scopes, tier, needs_mfa, context) = (Vec::new(), None, false, None);
        let mut rule = AccessRule { method, name, scopes, tier, needs_mfa, context };
        for word in words {
            match word.split_once('=') {
                Some(("scope", scope)) if super::is_scope(scope) => rule.scopes.push(scope.into()),
                Some(("tier", tier)) => {
                    let rank = self.tiers.iter().position(|known| &**known == tier);
                    rule.tier = Some(rank.ok_or_else(|| format!("unknown tier {tier}"))?);
                }
                Some(("acr", context)) if !context.is_empty() => {
                    rule.context = Some(context.into());
                }
                None if word == "mfa" => rule.needs_mfa = true,
                _ => return Err(format!("\"{word}\" is not {REQUIREMENTS}")),
            }
        }
        if rule.scopes.is_empty() && rule.tier.is_none() && !rule.checks_factors() {
            return Err(format!("it requires nothing: add {REQUIREMENTS}"));
        }
        Ok(rule)
    }

    /// Has the calls of tools with these names logged; `*` stands for any text.
    #[must_use]
    pub fn with_audited(mut self, tools: &[String]) -> Self {
        self.audited = tools.iter().map(|name| Pattern::new(name)).collect();
        self
    }

    /// Returns whether calls of some tools are logged.
    #[inline]
    pub const fn has_audit(&self) -> bool {
        !self.audited.is_empty()
    }

    /// Returns whether calls of a tool are logged.
    #[inline]
    pub fn audits(&self, tool: &str) -> bool {
        self.audited.iter().any(|name| name.matches(tool))
    }

    /// Returns whether some scope implies another one.
    pub const fn implies_scopes(&self) -> bool {
        !self.implied.is_empty()
    }

    /// Returns whether a tier is one of those that are configured.
    pub fn has_tier(&self, tier: &str) -> bool {
        self.tiers.iter().any(|known| &**known == tier)
    }

    /// Returns the scopes and those that they imply, each once.
    pub fn expand_scopes<'s>(&'s self, scopes: impl Iterator<Item = &'s str>) -> Vec<Box<str>> {
        let mut all: Vec<Box<str>> = Vec::new();
        let mut open: Vec<&str> = scopes.collect();
        open.reverse();
        while let Some(scope) = open.pop() {
            if all.iter().any(|known| &**known == scope) {
                continue;
            }
            all.push(scope.into());
            let implied = self.implied.iter().filter(|(from, _)| &**from == scope);
            open.extend(implied.flat_map(|(_, implied)| implied.iter().map(|scope| &**scope)));
        }
        all
    }

    /// Returns whether each request is admitted from every caller.
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Checks whether a caller may make a request; `None` is a caller without a credential.
    ///
    /// # Errors
    ///
    /// [`AccessDenied`] has all scopes that the target needs, not only those that are missing.
    pub fn check(
        &self,
        principal: Option<&Principal>,
        target: AccessTarget<'_>,
    ) -> Result<(), AccessDenied> {
        let mut missing = None;
        let mut needed: Vec<&str> = Vec::new();
        let has_scope = |scope: &str| principal.is_some_and(|caller| caller.has_scope(scope));
        let require = |scope: &'_ str, missing: &mut Option<String>| {
            if !has_scope(scope) && missing.is_none() {
                *missing = Some(format!("the scope {scope} is missing"));
            }
        };
        for scope in target.scopes {
            require(scope, &mut missing);
            needed.push(scope);
        }
        for rule in self.rules.iter().filter(|rule| rule.applies_to(target)) {
            for scope in &rule.scopes {
                require(scope, &mut missing);
                needed.push(scope);
            }
            if let Some(tier) = rule.tier.filter(|tier| self.rank(principal) < *tier)
                && missing.is_none()
            {
                missing = Some(format!("the tier {} is required", self.tiers[tier]));
            }
        }
        let is_second_factor = missing.is_none();
        for rule in self.rules.iter().filter(|it| it.checks_factors() && it.applies_to(target)) {
            missing = missing.or_else(|| rule.missing_factor(principal));
        }
        match missing {
            None => Ok(()),
            Some(reason) => {
                let mut unique: Vec<&str> = Vec::new();
                for scope in needed {
                    if !unique.contains(&scope) {
                        unique.push(scope);
                    }
                }
                let (scopes, reason) = (unique.join(" ").into(), reason.into());
                Err(AccessDenied { scopes, reason, is_second_factor })
            }
        }
    }

    /// Checks whether a caller may make a request for a resource, by its resolved URI.
    ///
    /// # Errors
    ///
    /// What the caller lacks.
    pub fn check_uri(
        &self,
        principal: Option<&Principal>,
        method: &str,
        uri: &str,
    ) -> Result<(), AccessDenied> {
        let forms = TargetUri::with_and_without_query(uri);
        forms.iter().try_for_each(|form| {
            let name = TargetName::Uri(form);
            self.check(principal, AccessTarget { method, name, scopes: &[] })
        })
    }

    /// Returns the rank of a caller among the tiers; one of an unknown tier has the lowest.
    fn rank(&self, principal: Option<&Principal>) -> usize {
        let tier = principal.map_or(ANONYMOUS_TIER, Principal::tier);
        self.tiers.iter().position(|known| &**known == tier).unwrap_or(0)
    }
}

impl AccessRule {
    fn applies_to(&self, target: AccessTarget<'_>) -> bool {
        self.method.matches(target.method)
            && self.name.as_ref().is_none_or(|name| name.matches(target.name))
    }

    fn checks_factors(&self) -> bool {
        self.needs_mfa || self.context.is_some()
    }

    /// Returns what the token does not prove of how its user was authenticated.
    fn missing_factor(&self, principal: Option<&Principal>) -> Option<String> {
        if self.needs_mfa && !principal.is_some_and(has_several_factors) {
            return Some("multi-factor authentication is required".to_owned());
        }
        let context = self.context.as_deref()?;
        let found = principal.and_then(|principal| principal.claim("acr"));
        let is_met = found.is_some_and(|found| found.as_str() == Some(context));
        (!is_met).then(|| format!("authentication with acr {context} is required"))
    }
}

/// Returns whether a token proves several factors (RFC 8176, section 2).
fn has_several_factors(principal: &Principal) -> bool {
    let methods = principal.claim("amr");
    let methods = methods.as_ref().and_then(|methods| methods.as_array());
    methods.is_some_and(|methods| methods.iter().any(|method| method == "mfa"))
}

fn is_requirement(word: &str) -> bool {
    word == "mfa" || ["scope=", "tier=", "acr="].iter().any(|kind| word.starts_with(kind))
}

/// What a rule can require.
const REQUIREMENTS: &str = "scope=SCOPE, tier=TIER, mfa or acr=VALUE";

/// The highest of the default tiers.
const ADMIN_TIER: &str = "admin";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rules: &[&str]) -> Result<AccessRules, String> {
        let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
        AccessRules::parse(&rules, &[], &["admin read call".to_owned(), "call list".to_owned()])
    }

    fn call(name: &str) -> AccessTarget<'_> {
        AccessTarget { method: "tools/call", name: TargetName::Name(name), scopes: &[] }
    }

    #[test]
    fn all_matching_rules_must_be_satisfied() {
        let rules = parse(&["tools/call scope=call", "tools/* deploy_* scope=deploy tier=admin"]);
        let rules = rules.unwrap();
        let user = Principal::new("u").with_scopes(["call"]);
        assert_eq!(rules.check(Some(&user), call("echo")), Ok(()));
        let denied = rules.check(Some(&user), call("deploy_x")).unwrap_err();
        assert_eq!(&*denied.scopes, "call deploy");
        assert_eq!(&*denied.reason, "the scope deploy is missing");
        let deployer = user.clone().with_scopes(["call", "deploy"]);
        let denied = rules.check(Some(&deployer), call("deploy_x")).unwrap_err();
        assert_eq!(&*denied.reason, "the tier admin is required");
        assert_eq!(rules.check(Some(&deployer.with_tier("admin")), call("deploy_x")), Ok(()));
        let other = AccessTarget { method: "resources/read", ..call("deploy_x") };
        assert_eq!(rules.check(None, other), Ok(()));
    }

    #[test]
    fn scopes_of_a_tool_are_required() {
        let scopes = ["billing".into()];
        let target = AccessTarget { scopes: &scopes, ..call("pay") };
        let rules = parse(&["tools/call scope=call"]).unwrap();
        let denied = rules.check(None, target).unwrap_err();
        assert_eq!(&*denied.scopes, "billing call");
    }

    #[test]
    fn scopes_imply_others_transitively() {
        let rules = parse(&[]).unwrap();
        let all = rules.expand_scopes(["admin", "x"].into_iter());
        let mut all: Vec<&str> = all.iter().map(|scope| &**scope).collect();
        all.sort_unstable();
        assert_eq!(all, ["admin", "call", "list", "read", "x"]);
    }

    #[test]
    fn unknown_tier_ranks_lowest() {
        let rules = parse(&["tools/call tier=user"]).unwrap();
        let check = |tier: &str| rules.check(Some(&Principal::new("u").with_tier(tier)), call("x"));
        assert!(check("root").is_err());
        assert!(check("anonymous").is_err());
        assert!(check("user").is_ok() && check("admin").is_ok());
        assert!(rules.check(None, call("x")).is_err());
    }

    #[test]
    fn mfa_rule_needs_the_claim() {
        let rules = parse(&["tools/call mfa"]).unwrap();
        let claims = serde_json::json!({"amr": ["pwd", "mfa"]});
        let caller = Principal::new("u");
        assert!(rules.check(Some(&caller), call("x")).unwrap_err().is_second_factor);
        let caller = caller.with_claims(claims.as_object().unwrap());
        assert_eq!(rules.check(Some(&caller), call("x")), Ok(()));
    }

    #[test]
    fn acr_rule_needs_the_value() {
        let rules = parse(&["tools/call acr=urn:phr"]).unwrap();
        let claimed = |value: &str| {
            let claims = serde_json::json!({ "acr": value });
            Principal::new("u").with_claims(claims.as_object().unwrap())
        };
        assert_eq!(rules.check(Some(&claimed("urn:phr")), call("x")), Ok(()));
        let denied = rules.check(Some(&claimed("urn:pwd")), call("x")).unwrap_err();
        assert_eq!(&*denied.reason, "authentication with acr urn:phr is required");
        assert!(denied.is_second_factor);
        assert!(rules.check(None, call("x")).is_err());
    }

    #[test]
    fn second_factor_is_missing_after_all_else() {
        let rules = parse(&["tools/call mfa scope=call", "tools/call tier=admin"]).unwrap();
        let caller = Principal::new("u").with_scopes(["call"]);
        let denied = rules.check(Some(&caller), call("x")).unwrap_err();
        assert_eq!(&*denied.reason, "the tier admin is required");
        assert!(!denied.is_second_factor);
        let denied = rules.check(Some(&caller.with_tier("admin")), call("x")).unwrap_err();
        assert_eq!(&*denied.scopes, "call");
        assert!(denied.is_second_factor);
    }

    #[test]
    fn malformed_rule_is_rejected() {
        for rule in [
            "",
            "tools/call",
            "scope=x",
            "tools/call x",
            "tools/call tier=root",
            "a b c scope=x",
            "tools/call scope=",
            "tools/call scope=\"",
            "tools/call role=x",
            "tools/call acr=",
        ] {
            assert!(parse(&[rule]).is_err(), "{rule}");
        }
        assert!(AccessRules::parse(&[], &[], &["a \"".to_owned()]).is_err());
    }
}
