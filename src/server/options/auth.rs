//! Options of authentication and authorization.

use std::path::PathBuf;
use std::time::Duration;

/// Who may use the server. Off without API keys, issuers, introspection, client certificates
/// and a [verifier](crate::Server::token_verifier): every client is served then. `rules` and
/// `audit` also apply to principals that the host program attaches to requests.
///
/// A token is sent as `Authorization: Bearer` over HTTP and WebSocket, or as `DPoP` with a proof of
/// its key, and as `auth_token` in the params of `initialize` or in `_meta` over TCP and stdio.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "mirrors the keys of the configuration file")]
pub struct AuthOptions {
    /// Files with API keys, a line `id:hash:tier:scopes` each: the hash is the SHA-256 of the key
    /// in hex, scopes are separated by commas, tier (`user`) and scopes may be left out. Default:
    /// none.
    pub api_keys: Vec<PathBuf>,
    /// Whose TLS client certificates stand for a token: `NAME [requirement…]`, such as
    /// `spiffe://prod.example/* tier=admin scope=deploy`. `NAME` is compared with the first URI of
    /// the subject alternative name, else its first DNS name, else `sha256:` and the SHA-256 of the
    /// subject in hex; `*` stands for any text. The first line whose name matches gives the caller
    /// its tier (`user` without one) and scopes. A token in the request takes precedence. Needs
    /// `tls.client_certificates`. Default: none, certificates stand for no caller.
    pub client_certificates: Vec<String>,
    /// The URL of the MCP endpoint as clients know it: the audience that tokens of issuers must
    /// have, and the resource of the metadata (RFC 9728). Required with issuers. Default `None`.
    pub resource: Option<String>,
    /// Further audiences that tokens may have. Default: none.
    pub audiences: Vec<String>,
    /// The authorization servers whose JWT are accepted, each exactly as in the claim `iss`.
    /// Default: none.
    pub issuers: Vec<String>,
    /// Where the keys of the issuers are (JWK Set, RFC 7517), in the order of the issuers: the path
    /// of a file, or a URL. Plain `http` is allowed for loopback addresses only.
    pub key_sets: Vec<String>,
    /// URL of the introspection endpoint (RFC 7662), which is asked about tokens that are neither
    /// API keys nor JWT of the issuers with keys. Needs `resource`. A request, a WebSocket upgrade
    /// and a message over TCP and stdio wait for the answer, 5 s at most. Cost: a request for each
    /// token in a minute, a thread, and the memory of messages that wait, which counts as that of
    /// handlers. Default `None`.
    pub introspection: Option<String>,
    /// A file with `CLIENT_ID:CLIENT_SECRET`, the credential of this server at the introspection
    /// endpoint. Default: none.
    pub introspection_client: Vec<PathBuf>,
    /// Tokens that wait to be introspected; clients with further ones get status 503. Default 64.
    pub introspections_max: u16,
    /// PEM files with the authorities that issue the certificates of `key_sets` and
    /// `introspection`. Default: none, those of the system.
    pub server_authorities: Vec<PathBuf>,
    /// Algorithms of tokens that are accepted: of `RS256`, `RS384`, `RS512`, `PS256`, `PS384`,
    /// `PS512`, `ES256`, `ES384` and `EdDSA`. Default: all of them.
    pub algorithms: Vec<String>,
    /// Time by which the clocks of issuers may differ. Default 60 s.
    pub leeway: Duration,
    /// Accepts only JWT of the type `at+jwt` (RFC 9068). Default false.
    pub require_at_jwt: bool,
    /// Claim of a JWT with the tier of the caller. Default `None`: every caller is a `user`.
    pub tier_claim: Option<String>,
    /// The tiers, the lowest first. Default: `anonymous`, `user`, `admin`.
    pub tiers: Vec<String>,
    /// Scopes in the metadata (RFC 9728, `scopes_supported`). Default: none.
    pub scopes_supported: Vec<String>,
    /// Scopes that a client without a token is advised to ask for: the least that are of use.
    /// Default: none.
    pub challenge_scopes: Vec<String>,
    /// A scope and those that it implies, separated by spaces, for each such scope. Default: none.
    pub scope_implies: Vec<String>,
    /// What callers may do: `method [name] requirement…`, such as `tools/call deploy_*
    /// scope=deploy tier=admin`. Requirements are `scope=SCOPE`, `tier=TIER`, `mfa` (the claim
    /// `amr` has `mfa`, RFC 8176) and `acr=VALUE` (the claim `acr`, RFC 9470); `*` stands for any
    /// text. All rules that apply to a request must be satisfied; a request without one is
    /// admitted. Lists have only what the caller may call. Cost: each rule is compared with each
    /// request. Default: none.
    pub rules: Vec<String>,
    /// Names of tools whose calls are logged when they end, with the caller, its address and the
    /// outcome: `succeeded`, `failed` (a result with `isError`), `error` (a JSON-RPC error),
    /// `denied`, `input_required`, `task` (it has become one), `timed_out` or `cancelled`. `*`
    /// stands for any text. Arguments and results are not logged. Cost: a log line for each such
    /// call, however many there are. Default: none.
    pub audit: Vec<String>,
    /// Serves callers without a token, as the tier `anonymous`, as far as the rules admit them.
    /// Default false.
    pub anonymous: bool,
    /// Accepts tokens in the query parameter `token` of GET requests, for browsers whose
    /// `EventSource` and `WebSocket` have no headers. Cost: tokens get into the logs of proxies.
    /// Default false.
    pub query_token: bool,
    /// Verified tokens that each shard stores; another one replaces one that was not used lately.
    /// Cost: about 300 bytes and the claims each. Default 65,536.
    pub verified_tokens_max: u32,
    /// Tokens and proofs that a shard verifies in one turn; requests with further ones wait. Cost:
    /// up to 0.1 ms each, for which other requests wait. Default 4.
    pub checks_per_turn_max: u16,
    /// Whether tokens may be, or must be, bound to a key of which each request has a proof (DPoP,
    /// RFC 9449). Needs `resource`, of which the URL in a proof is checked. Default
    /// [`DpopMode::Off`].
    pub dpop: DpopMode,
    /// Demands a nonce of this server in each proof, which changes every 150 s: a proof cannot be
    /// made in advance. Cost: a refused request of each client in that time. Default false.
    pub dpop_nonce: bool,
    /// Time by which `iat` of a proof may differ from the clock of the server, before and after.
    /// Default 5 min.
    pub dpop_window: Duration,
    /// Proofs that are remembered, by all shards together, so that each is accepted once; the
    /// clients of further ones get status 503. A proof is remembered until `dpop_window` after its
    /// `iat`. Cost: up to 64 bytes each. Default 262,144.
    pub dpop_proofs_max: u32,
    /// Interval at which the files of API keys and keys are looked at: changed ones are read again,
    /// and used if all of them are valid. Cost: a thread. Default 10 s.
    pub check_interval: Duration,
}

impl Default for AuthOptions {
    fn default() -> Self {
        Self {
            api_keys: Vec::new(),
            client_certificates: Vec::new(),
            resource: None,
            audiences: Vec::new(),
            issuers: Vec::new(),
            key_sets: Vec::new(),
            introspection: None,
            introspection_client: Vec::new(),
            introspections_max: 64,
            server_authorities: Vec::new(),
            algorithms: Vec::new(),
            leeway: Duration::from_mins(1),
            require_at_jwt: false,
            tier_claim: None,
            tiers: Vec::new(),
            scopes_supported: Vec::new(),
            challenge_scopes: Vec::new(),
            scope_implies: Vec::new(),
            rules: Vec::new(),
            audit: Vec::new(),
            anonymous: false,
            query_token: false,
            verified_tokens_max: 65_536,
            checks_per_turn_max: 4,
            dpop: DpopMode::Off,
            dpop_nonce: false,
            dpop_window: Duration::from_mins(5),
            dpop_proofs_max: 262_144,
            check_interval: Duration::from_secs(10),
        }
    }
}

/// Whether tokens are bound to a key of which each request has a proof (DPoP, RFC 9449).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum DpopMode {
    /// No proof is verified, and a token that is bound to such a key is refused.
    #[default]
    Off,
    /// A token that is bound to a key needs a proof of it; others are accepted without.
    Allowed,
    /// Tokens of authorization servers must be bound to a key. API keys need no proof.
    Required,
}

impl AuthOptions {
    /// Returns whether clients are authenticated by these options, apart from a verifier of the
    /// program.
    pub const fn is_enabled(&self) -> bool {
        !self.api_keys.is_empty()
            || !self.issuers.is_empty()
            || !self.client_certificates.is_empty()
            || self.introspection.is_some()
    }

    /// Returns an option that has no effect unless tokens are verified, or unless callers are known
    /// otherwise.
    pub(crate) fn first_without_effect(&self, knows_callers: bool) -> Option<&'static str> {
        let set = [
            (!self.rules.is_empty() && !knows_callers, "auth.rules"),
            (!self.audit.is_empty() && !knows_callers, "auth.audit"),
            (self.anonymous, "auth.anonymous"),
            (!self.key_sets.is_empty(), "auth.key_sets"),
            (self.resource.is_some(), "auth.resource"),
            (self.dpop != DpopMode::Off, "auth.dpop"),
            (!self.introspection_client.is_empty(), "auth.introspection_client"),
            (!self.server_authorities.is_empty(), "auth.server_authorities"),
        ];
        set.into_iter().find_map(|(is_set, key)| is_set.then_some(key))
    }
}
