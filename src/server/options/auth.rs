//! Options of authentication and authorization.

use std::path::PathBuf;
use std::time::Duration;

use super::declare::{MINUTE, options};
use super::value::{Choice, choice};

options! {
    /// Who may use the server. Off without API keys, issuers, introspection, client certificates
    /// and a [verifier](crate::Server::token_verifier): every client is served then. `rules` and
    /// `audit` also apply to principals that the host program attaches to requests.
    ///
    /// A token is sent as `Authorization: Bearer` over HTTP and WebSocket, or as `DPoP` with a
    /// proof of its key, and as `auth_token` in the params of `initialize` or in `_meta` over TCP
    /// and stdio.
    pub struct AuthOptions at |options| options.auth;

    group AUTH {
        /// Files with API keys, a line `id:hash:tier:scopes` each: the hash is the SHA-256 of the
        /// key in hex, scopes are separated by commas, tier (user) and scopes may be left out. Read
        /// again on SIGHUP.
        #[option("auth.api_keys", Files, reload)]
        #[cost = "one SHA-256 for each token that is not known yet"]
        #[source = "RFC 6750, section 2.1"]
        pub api_keys: Vec<PathBuf> = Vec::new();

        /// Whose TLS client certificates stand for a token: `NAME [scope=SCOPE] [tier=TIER]`, such
        /// as `spiffe://prod.example/* tier=admin`. NAME is compared with the first URI of the
        /// subject alternative name, else its first DNS name, else `sha256:` and the hash of the
        /// subject; `*` stands for any text. The first that matches decides.
        ///
        /// It gives the caller its tier (`user` without one) and scopes. A token in the request
        /// takes precedence. Needs `tls.client_certificates`.
        #[option("auth.client_certificates", Words, reload)]
        #[cost = "each is compared once with the certificate of a connection"]
        #[source = "RFC 5280, section 4.2.1.6"]
        pub client_certificates: Vec<String> = Vec::new();

        /// URL of the MCP endpoint as clients know it: the audience that tokens must have, and the
        /// resource of the metadata. Needed with `auth.issuers`.
        #[option("auth.resource", Text, restart)]
        #[cost = "none"]
        #[source = "RFC 8707; RFC 9728"]
        pub resource: Option<String> = None;

        /// Further audiences that tokens may have.
        #[option("auth.audiences", Words, reload)]
        #[cost = "none"]
        #[source = "RFC 7519, section 4.1.3"]
        pub audiences: Vec<String> = Vec::new();

        /// Authorization servers whose JWT are accepted, each exactly as in the claim iss.
        #[option("auth.issuers", Words, restart)]
        #[cost = "one signature check for each token that is not known yet"]
        #[source = "MCP, basic/authorization; RFC 7519"]
        pub issuers: Vec<String> = Vec::new();

        /// Keys of the issuers (JWK Set), in their order: the path of a file, or a URL that begins
        /// with https.
        ///
        /// Plain `http` is allowed for loopback addresses only.
        #[option("auth.key_sets", Words, restart)]
        #[cost = "for a URL a request in an hour, and a thread each"]
        #[source = "RFC 7517"]
        pub key_sets: Vec<String> = Vec::new();

        /// URL of the introspection endpoint, which is asked about tokens that are neither API keys
        /// nor JWT of issuers with keys. Needs `auth.resource`.
        ///
        /// A request, a WebSocket upgrade and a message over TCP and stdio wait for the answer, 5 s
        /// at most; messages that wait count as memory of handlers.
        #[option("auth.introspection", Text, restart)]
        #[cost = "a request for each token in a minute, and threads"]
        #[source = "RFC 7662"]
        pub introspection: Option<String> = None;

        /// File with `CLIENT_ID:CLIENT_SECRET`, the credential of this server at the introspection
        /// endpoint.
        #[option("auth.introspection_client", Files, reload)]
        #[cost = "none"]
        #[source = "RFC 6749, section 2.3.1"]
        pub introspection_client: Vec<PathBuf> = Vec::new();

        /// Tokens that wait to be introspected. When there are more, the client address (IPv6: /64
        /// prefix) with most of them loses its newest; its client gets status 503.
        ///
        /// Addresses have turns, and tokens that were valid before come first.
        #[option("auth.introspections_max", Count { min: 1, max: 10_000 }, restart)]
        #[cost = "the token each"]
        pub introspections_max: u16 = 256, tiny 8;

        /// Tokens that are introspected at once, besides 8 times as many without an answer for 0.5
        /// s. A client address has a further one only while more are free than it has.
        #[option("auth.introspections_at_once_max", Count { min: 1, max: 256 }, restart)]
        #[cost = "a thread and a connection each"]
        pub introspections_at_once_max: u16 = 16, tiny 2;

        /// Time for which a token that the introspection endpoint has called valid stays valid
        /// while the endpoint does not answer; 0 refuses it at once. It begins a minute after the
        /// last answer, and ends when the token expires.
        #[option("auth.introspection_grace", Milliseconds { min: 0, max: 60 * MINUTE }, restart)]
        #[cost = "a withdrawn token is accepted for that much longer if the endpoint is away"]
        pub introspection_grace: Duration = Duration::from_mins(5);

        /// PEM files with the authorities that issue the certificates of the servers of
        /// `auth.key_sets` and `auth.introspection`; default is those of the system.
        #[option("auth.server_authorities", Files, reload)]
        #[cost = "none"]
        #[source = "RFC 5280"]
        pub server_authorities: Vec<PathBuf> = Vec::new();

        /// Algorithms of tokens that are accepted: of RS256, RS384, RS512, PS256, PS384, PS512,
        /// ES256, ES384 and `EdDSA`; default is all of them.
        #[option("auth.algorithms", Words, reload)]
        #[cost = "none"]
        #[source = "RFC 8725, section 3.1"]
        pub algorithms: Vec<String> = Vec::new();

        /// Time by which the clocks of issuers may differ.
        #[option("auth.leeway", Milliseconds { min: 0, max: 5 * MINUTE }, reload)]
        #[cost = "tokens are accepted for that much longer"]
        #[source = "RFC 7519, section 4.1.4"]
        pub leeway: Duration = Duration::from_mins(1);

        /// Accept only JWT of the type `at+jwt`.
        #[option("auth.require_at_jwt", Switch, reload)]
        #[cost = "none"]
        #[source = "RFC 9068, section 2.1"]
        pub require_at_jwt: bool = false;

        /// Claim of a JWT with the tier of the caller; default is none, every caller is a user.
        #[option("auth.tier_claim", Text, reload)]
        #[cost = "none"]
        pub tier_claim: Option<String> = None;

        /// Tiers, the lowest first; default is `anonymous,user,admin`.
        #[option("auth.tiers", Words, reload)]
        #[cost = "none"]
        pub tiers: Vec<String> = Vec::new();

        /// Scopes in the metadata of the resource.
        #[option("auth.scopes_supported", Words, reload)]
        #[cost = "none"]
        #[source = "RFC 9728, section 2"]
        pub scopes_supported: Vec<String> = Vec::new();

        /// Scopes that a client without a token is advised to ask for.
        ///
        /// They should be the least that are of use.
        #[option("auth.challenge_scopes", Words, reload)]
        #[cost = "none"]
        #[source = "MCP, basic/authorization; RFC 6750, section 3"]
        pub challenge_scopes: Vec<String> = Vec::new();

        /// A scope and those that it implies, separated by spaces, for each such scope.
        #[option("auth.scope_implies", Words, reload)]
        #[cost = "none"]
        #[source = "MCP, basic/authorization"]
        pub scope_implies: Vec<String> = Vec::new();

        /// What callers may do: `method [name] requirement`, such as `tools/call deploy_*
        /// scope=deploy tier=admin`. Requirements are `scope=SCOPE`, `tier=TIER`, `mfa` and
        /// `acr=VALUE`; `*` stands for any text. All rules that apply must be satisfied.
        ///
        /// `mfa` needs the claim `amr` with `mfa` (RFC 8176), `acr` is the claim of that name (RFC
        /// 9470). A request without a rule is admitted. Lists have only what the caller may call.
        #[option("auth.rules", Words, reload)]
        #[cost = "each rule is compared with each request"]
        #[source = "MCP, basic/authorization"]
        pub rules: Vec<String> = Vec::new();

        /// Names of tools whose calls are logged when they end, with caller, address and outcome;
        /// `*` stands for any text. Arguments and results are not logged.
        ///
        /// Outcomes are `succeeded`, `failed` (a result with `isError`), `error` (a JSON-RPC
        /// error), `denied`, `input_required`, `task` (it has become one), `timed_out` and
        /// `cancelled`.
        #[option("auth.audit", Words, reload)]
        #[cost = "a log line for each such call"]
        pub audit: Vec<String> = Vec::new();

        /// File for the lines of `auth.audit`, appended as one JSON object each; off writes them to
        /// the log.
        ///
        /// It is created for the user of the process only, and opened anew on SIGHUP. Its queue has
        /// `log.queue_bytes_max`.
        #[option("auth.audit_file", File, restart)]
        #[cost = "a thread"]
        pub audit_file: Option<PathBuf> = None;

        /// Refuse a call of a tool in `auth.audit` while its line has no place in the queue of
        /// `auth.audit_file`, or the file takes none.
        ///
        /// The place is reserved before the call begins. Lines that the file does not take, such as
        /// on a full disk, are written again each second; what waits at the end of the process is
        /// lost if the file does not take it within 0.5 s.
        #[option("auth.audit_required", Switch, restart)]
        #[cost = "none"]
        pub audit_required: bool = false;

        /// Let `corelane serve` listen on an address that other machines reach although nothing
        /// authenticates clients there.
        ///
        /// Without it such a listener is refused. A program with a [`Server`](crate::Server)
        /// listens where it says, whatever this option is.
        #[option("auth.insecure_public" | "insecure_public", Switch, restart)]
        #[cost = "each client that reaches the address is served"]
        pub insecure_public: bool = false;

        /// Serve callers without a token, as the tier anonymous, as far as `auth.rules` admit them.
        #[option("auth.anonymous", Switch, reload)]
        #[cost = "none"]
        pub anonymous: bool = false;

        /// Accept tokens in the query parameter token of GET requests, for browsers whose
        /// `EventSource` and WebSocket have no headers.
        #[option("auth.query_token", Switch, restart)]
        #[cost = "tokens get into the logs of proxies"]
        #[source = "RFC 6750, section 2.3"]
        pub query_token: bool = false;

        /// Verified tokens that each shard stores; another one replaces one that was not used
        /// lately. Their callers with claims take 1 KiB each on average at most, or 4 MiB together
        /// if that is more, and all of it a sixteenth of `memory_bytes_max`; one that takes more
        /// than that is verified with each use.
        #[option("auth.verified_tokens_max", Count { min: 0, max: 10_000_000 }, restart)]
        #[cost = "about 300 bytes and the claims each, 1.3 KiB or 4 MiB in all at most"]
        pub verified_tokens_max: u32 = 65_536, tiny 4;

        /// Tokens and proofs that a shard verifies in one turn; requests with further ones wait.
        #[option("auth.checks_per_turn_max", Count { min: 1, max: 10_000 }, restart)]
        #[cost = "up to 0.1 ms each, for which other requests wait"]
        pub checks_per_turn_max: u16 = 4, tiny 2;

        /// Whether tokens may be, or must be, bound to a key of which each request has a proof
        /// (DPoP). Needs `auth.resource`: the URL that proofs name.
        #[option("auth.dpop", Choice(DpopMode::NAMES), restart)]
        #[cost = "one signature check for each request with such a token"]
        #[source = "RFC 9449"]
        pub dpop: DpopMode = DpopMode::Off;

        /// Demand a nonce of this server in each proof, which changes every 150 s: no proof can be
        /// made in advance.
        #[option("auth.dpop_nonce", Switch, restart)]
        #[cost = "one refused request of each client in 150 s"]
        #[source = "RFC 9449, section 9"]
        pub dpop_nonce: bool = false;

        /// Time by which iat of a proof may differ from the clock of the server, before and after;
        /// counted in whole seconds.
        #[option("auth.dpop_window", Milliseconds { min: 1_000, max: 10 * MINUTE }, restart)]
        #[cost = "proofs are remembered for that long"]
        #[source = "RFC 9449, section 11.1"]
        pub dpop_window: Duration = Duration::from_mins(5);

        /// Proofs that are remembered, by all shards together, so that each is accepted once; the
        /// clients of further ones get status 503.
        ///
        /// A proof is remembered until `dpop_window` after its `iat`. One caller may have three
        /// quarters of what the others leave, so that it is refused before they are.
        #[option("auth.dpop_proofs_max", Count { min: 1, max: 100_000_000 }, restart)]
        #[cost = "up to 64 bytes each"]
        #[source = "RFC 9449, section 11.1"]
        pub dpop_proofs_max: u32 = 262_144, tiny 64;

        /// Interval at which the files of API keys and keys are looked at: changed ones are read
        /// again; 0 leaves that to SIGHUP.
        ///
        /// They are used if all of them are valid.
        #[option("auth.check_interval", Milliseconds { min: 0, max: 60 * MINUTE }, restart)]
        #[cost = "a thread"]
        pub check_interval: Duration = Duration::from_secs(10), tiny Duration::ZERO;
    }
}

choice! {
    /// Whether tokens are bound to a key of which each request has a proof (DPoP, RFC 9449).
    #[non_exhaustive]
    pub enum DpopMode {
        /// No proof is verified, and a token that is bound to such a key is refused.
        #[default]
        Off = "off",
        /// A token that is bound to a key needs a proof of it; others are accepted without.
        Allowed = "allowed",
        /// Tokens of authorization servers must be bound to a key. API keys need no proof.
        Required = "required",
    }
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
