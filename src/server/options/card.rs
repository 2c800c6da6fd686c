//! The options of what a server says of itself to clients and registries before they connect.

use super::declare::options;

options! {
    /// The server card (SEP-2127) and the entry of a registry. Name, title, version and description
    /// are those of [`ServiceOptions`](super::ServiceOptions).
    pub struct CardOptions at |options| options.card;

    group CARD {
        /// Name of the server in registries: a namespace, such as a domain in reverse, a slash and
        /// a name, as in com.example/shop; default is none. With it the server card is served at
        /// `http.path` and `/server-card`, and named at `/.well-known/ai-catalog.json`.
        ///
        /// `server.description` is then needed, of 1 to 100 characters.
        #[option("card.name", Text, restart)]
        #[cost = "about 2 KB; clients read the card without a token"]
        #[source = "SEP-2127; MCP registry, server.json"]
        pub name: Option<String> = None;

        /// URL of the MCP endpoint as clients know it; default is `auth.resource`, or
        /// `http.address` if it is not a wildcard.
        #[option("card.url", Text, restart)]
        #[cost = "none"]
        #[source = "SEP-2127, Remote"]
        pub url: Option<String> = None;

        /// URL of the website of the server; default is none.
        #[option("card.website", Text, restart)]
        #[cost = "none"]
        #[source = "SEP-2127"]
        pub website: Option<String> = None;

        /// URL of the repository of the source code; default is none.
        #[option("card.repository", Text, restart)]
        #[cost = "none"]
        #[source = "SEP-2127, Repository"]
        pub repository: Option<String> = None;

        /// Name of the author, for `corelane mcpb`; default is the namespace of `card.name`.
        #[option("card.author", Text, restart)]
        #[cost = "none"]
        #[source = "MCPB, MANIFEST.md"]
        pub author: Option<String> = None;
    }
}
