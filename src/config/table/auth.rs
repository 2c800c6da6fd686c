//! Options of authentication and authorization.

use crate::config::options::DpopMode;
use crate::config::table::{MINUTE, Row, Section};
use crate::config::unit::Unit;
use crate::config::value::Choice;

pub(super) static AUTH: Section = Section {
    heading: "Authentication",
    rows: &[
        Row {
            key: "auth.api_keys",
            short: None,
            unit: Unit::Files,
            description: "Files with API keys, a line id:hash:tier:scopes each: the hash is \
                          the SHA-256 of the key in hex, scopes are separated by commas, \
                          tier (user) and scopes may be left out. Read again on SIGHUP.",
            cost: "one SHA-256 for each token that is not known yet",
            source: "RFC 6750, section 2.1",
            is_reloadable: true,
            field: |options| &mut options.auth.api_keys,
        },
        Row {
            key: "auth.client_certificates",
            short: None,
            unit: Unit::Words,
            description: "Whose TLS client certificates stand for a token: NAME [scope=SCOPE] \
                          [tier=TIER], such as spiffe://prod.example/* tier=admin. NAME is \
                          compared with the first URI of the subject alternative name, else \
                          its first DNS name, else sha256: and the hash of the subject; * \
                          stands for any text. The first that matches decides.",
            cost: "each is compared once with the certificate of a connection",
            source: "RFC 5280, section 4.2.1.6",
            is_reloadable: true,
            field: |options| &mut options.auth.client_certificates,
        },
        Row {
            key: "auth.resource",
            short: None,
            unit: Unit::Text,
            description: "URL of the MCP endpoint as clients know it: the audience that \
                          tokens must have, and the resource of the metadata. Needed with \
                          auth.issuers.",
            cost: "none",
            source: "RFC 8707; RFC 9728",
            is_reloadable: false,
            field: |options| &mut options.auth.resource,
        },
        Row {
            key: "auth.audiences",
            short: None,
            unit: Unit::Words,
            description: "Further audiences that tokens may have.",
            cost: "none",
            source: "RFC 7519, section 4.1.3",
            is_reloadable: true,
            field: |options| &mut options.auth.audiences,
        },
        Row {
            key: "auth.issuers",
            short: None,
            unit: Unit::Words,
            description: "Authorization servers whose JWT are accepted, each exactly as in \
                          the claim iss.",
            cost: "one signature check for each token that is not known yet",
            source: "MCP, basic/authorization; RFC 7519",
            is_reloadable: false,
            field: |options| &mut options.auth.issuers,
        },
        Row {
            key: "auth.key_sets",
            short: None,
            unit: Unit::Words,
            description: "Keys of the issuers (JWK Set), in their order: the path of a file, \
                          or a URL that begins with https.",
            cost: "for a URL a request in an hour, and a thread",
            source: "RFC 7517",
            is_reloadable: false,
            field: |options| &mut options.auth.key_sets,
        },
        Row {
            key: "auth.introspection",
            short: None,
            unit: Unit::Text,
            description: "URL of the introspection endpoint, which is asked about tokens that \
                          are neither API keys nor JWT of issuers with keys. Needs \
                          auth.resource.",
            cost: "a request for each token in a minute, and a thread",
            source: "RFC 7662",
            is_reloadable: false,
            field: |options| &mut options.auth.introspection,
        },
        Row {
            key: "auth.introspection_client",
            short: None,
            unit: Unit::Files,
            description: "File with CLIENT_ID:CLIENT_SECRET, the credential of this server at \
                          the introspection endpoint.",
            cost: "none",
            source: "RFC 6749, section 2.3.1",
            is_reloadable: true,
            field: |options| &mut options.auth.introspection_client,
        },
        Row {
            key: "auth.introspections_max",
            short: None,
            unit: Unit::Count { min: 1, max: 10_000 },
            description: "Tokens that wait to be introspected; clients with further ones get \
                          status 503.",
            cost: "the token each",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.auth.introspections_max,
        },
        Row {
            key: "auth.server_authorities",
            short: None,
            unit: Unit::Files,
            description: "PEM files with the authorities that issue the certificates of the \
                          servers of auth.key_sets and auth.introspection; default is those \
                          of the system.",
            cost: "none",
            source: "RFC 5280",
            is_reloadable: true,
            field: |options| &mut options.auth.server_authorities,
        },
        Row {
            key: "auth.algorithms",
            short: None,
            unit: Unit::Words,
            description: "Algorithms of tokens that are accepted: of RS256, RS384, RS512, \
                          PS256, PS384, PS512, ES256, ES384 and EdDSA; default is all of \
                          them.",
            cost: "none",
            source: "RFC 8725, section 3.1",
            is_reloadable: true,
            field: |options| &mut options.auth.algorithms,
        },
        Row {
            key: "auth.leeway",
            short: None,
            unit: Unit::Milliseconds { min: 0, max: 5 * MINUTE },
            description: "Time by which the clocks of issuers may differ.",
            cost: "tokens are accepted for that much longer",
            source: "RFC 7519, section 4.1.4",
            is_reloadable: true,
            field: |options| &mut options.auth.leeway,
        },
        Row {
            key: "auth.require_at_jwt",
            short: None,
            unit: Unit::Switch,
            description: "Accept only JWT of the type at+jwt.",
            cost: "none",
            source: "RFC 9068, section 2.1",
            is_reloadable: true,
            field: |options| &mut options.auth.require_at_jwt,
        },
        Row {
            key: "auth.tier_claim",
            short: None,
            unit: Unit::Text,
            description: "Claim of a JWT with the tier of the caller; default is none, every \
                          caller is a user.",
            cost: "none",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.auth.tier_claim,
        },
        Row {
            key: "auth.tiers",
            short: None,
            unit: Unit::Words,
            description: "Tiers, the lowest first; default is anonymous,user,admin.",
            cost: "none",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.auth.tiers,
        },
        Row {
            key: "auth.scopes_supported",
            short: None,
            unit: Unit::Words,
            description: "Scopes in the metadata of the resource.",
            cost: "none",
            source: "RFC 9728, section 2",
            is_reloadable: true,
            field: |options| &mut options.auth.scopes_supported,
        },
        Row {
            key: "auth.challenge_scopes",
            short: None,
            unit: Unit::Words,
            description: "Scopes that a client without a token is advised to ask for.",
            cost: "none",
            source: "MCP, basic/authorization; RFC 6750, section 3",
            is_reloadable: true,
            field: |options| &mut options.auth.challenge_scopes,
        },
        Row {
            key: "auth.scope_implies",
            short: None,
            unit: Unit::Words,
            description: "A scope and those that it implies, separated by spaces, for each \
                          such scope.",
            cost: "none",
            source: "MCP, basic/authorization",
            is_reloadable: true,
            field: |options| &mut options.auth.scope_implies,
        },
        Row {
            key: "auth.rules",
            short: None,
            unit: Unit::Words,
            description: "What callers may do: method [name] requirement, such as tools/call \
                          deploy_* scope=deploy tier=admin. Requirements are scope=SCOPE, \
                          tier=TIER, mfa and acr=VALUE; * stands for any text. All rules \
                          that apply must be satisfied.",
            cost: "each rule is compared with each request",
            source: "MCP, basic/authorization",
            is_reloadable: true,
            field: |options| &mut options.auth.rules,
        },
        Row {
            key: "auth.audit",
            short: None,
            unit: Unit::Words,
            description: "Names of tools whose calls are logged when they end, with caller, \
                          address and outcome; * stands for any text. Arguments and results \
                          are not logged.",
            cost: "a log line for each such call",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.auth.audit,
        },
        Row {
            key: "auth.anonymous",
            short: None,
            unit: Unit::Switch,
            description: "Serve callers without a token, as the tier anonymous, as far as \
                          auth.rules admit them.",
            cost: "none",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.auth.anonymous,
        },
        Row {
            key: "auth.query_token",
            short: None,
            unit: Unit::Switch,
            description: "Accept tokens in the query parameter token of GET requests, for \
                          browsers whose EventSource and WebSocket have no headers.",
            cost: "tokens get into the logs of proxies",
            source: "RFC 6750, section 2.3",
            is_reloadable: false,
            field: |options| &mut options.auth.query_token,
        },
        Row {
            key: "auth.verified_tokens_max",
            short: None,
            unit: Unit::Count { min: 0, max: 10_000_000 },
            description: "Verified tokens that each shard stores; another one replaces one \
                          that was not used lately.",
            cost: "about 300 bytes and the claims each",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.auth.verified_tokens_max,
        },
        Row {
            key: "auth.checks_per_turn_max",
            short: None,
            unit: Unit::Count { min: 1, max: 10_000 },
            description: "Tokens and proofs that a shard verifies in one turn; requests with \
                          further ones wait.",
            cost: "up to 0.1 ms each, for which other requests wait",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.auth.checks_per_turn_max,
        },
        Row {
            key: "auth.dpop",
            short: None,
            unit: Unit::Choice(DpopMode::NAMES),
            description: "Whether tokens may be, or must be, bound to a key of which each \
                          request has a proof (DPoP). Needs auth.resource: the URL that \
                          proofs name.",
            cost: "one signature check for each request with such a token",
            source: "RFC 9449",
            is_reloadable: false,
            field: |options| &mut options.auth.dpop,
        },
        Row {
            key: "auth.dpop_nonce",
            short: None,
            unit: Unit::Switch,
            description: "Demand a nonce of this server in each proof, which changes every \
                          150 s: no proof can be made in advance.",
            cost: "one refused request of each client in 150 s",
            source: "RFC 9449, section 9",
            is_reloadable: false,
            field: |options| &mut options.auth.dpop_nonce,
        },
        Row {
            key: "auth.dpop_window",
            short: None,
            unit: Unit::Milliseconds { min: 1_000, max: 10 * MINUTE },
            description: "Time by which iat of a proof may differ from the clock of the \
                          server, before and after; counted in whole seconds.",
            cost: "proofs are remembered for that long",
            source: "RFC 9449, section 11.1",
            is_reloadable: false,
            field: |options| &mut options.auth.dpop_window,
        },
        Row {
            key: "auth.dpop_proofs_max",
            short: None,
            unit: Unit::Count { min: 1, max: 100_000_000 },
            description: "Proofs that are remembered, by all shards together, so that each is \
                          accepted once; the clients of further ones get status 503.",
            cost: "up to 64 bytes each",
            source: "RFC 9449, section 11.1",
            is_reloadable: false,
            field: |options| &mut options.auth.dpop_proofs_max,
        },
        Row {
            key: "auth.check_interval",
            short: None,
            unit: Unit::Milliseconds { min: 0, max: 60 * MINUTE },
            description: "Interval at which the files of API keys and keys are looked at: \
                          changed ones are read again; 0 leaves that to SIGHUP.",
            cost: "a thread",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.auth.check_interval,
        },
    ],
};
