// An MCP server that requires authorization, with the authorization server of npm `oidc-provider`
// under the same address: `node authorization_server.mjs PORT`.
//
// `/mcp` takes bearer tokens, `/dpop` tokens that are bound to a key (RFC 9449). Each login is
// allowed without a page. For the tests, `/expire` ends the access tokens, `/counts` has the number
// of grants and registrations, and `/key` the private key of the client `key-client`.

import { createHash, generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

import { requirePackage } from "./packages.mjs";

const load = (name) => import(pathToFileURL(requirePackage.resolve(name)));
const { default: Provider } = await load("oidc-provider");
const jose = await load("jose");

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const counts = {};
const tokens = new Set();

const direct = { grant_types: ["client_credentials"], redirect_uris: [], response_types: [] };
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "secret-client",
      client_secret: "a:secret with %",
      token_endpoint_auth_method: "client_secret_basic",
      ...direct,
    },
    {
      client_id: "key-client",
      token_endpoint_auth_method: "private_key_jwt",
      token_endpoint_auth_signing_alg: "ES256",
      jwks: { keys: [{ ...publicKey.export({ format: "jwk" }), use: "sig", alg: "ES256" }] },
      ...direct,
    },
  ],
  scopes: ["openid", "offline_access", "tools"],
  clientAuthMethods: ["none", "client_secret_basic", "private_key_jwt"],
  enabledJWA: { clientAuthSigningAlgValues: ["ES256"], dPoPSigningAlgValues: ["ES256"] },
  pkce: { required: () => true },
  rotateRefreshToken: () => true,
  issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
  findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  cookies: { keys: ["a test"] },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    clientCredentials: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    dPoP: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: "tools",
        audience: resource,
        accessTokenFormat: "opaque",
        accessTokenTTL: 3600,
      }),
    },
  },
});
const count = (name) => {
  counts[name] = (counts[name] ?? 0) + 1;
};
provider.on("grant.success", (ctx) => count(ctx.oidc.params.grant_type));
provider.on("registration_create.success", () => count("registration"));
provider.on("access_token.saved", (token) => tokens.add(token));
provider.on("client_credentials.saved", (token) => tokens.add(token));
const errors = ["authorization.error", "grant.error", "registration_create.error", "server_error"];
for (const name of errors) {
  provider.on(name, (_, error) => console.error(name, error.message, error.error_detail ?? ""));
}

// Allows a login and its scopes.
async function interact(request, response) {
  const { prompt, params } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: "ada" } });
  }
  const grant = new provider.Grant({ accountId: "ada", clientId: params.client_id });
  grant.addOIDCScope(params.scope ?? "");
  grant.addResourceScope(params.resource, "tools");
  const consent = { grantId: await grant.save() };
  const result = { consent };
  return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
}

// Whether a request to `resource` has a token for it.
async function isAuthorized(request, resource) {
  const [scheme, value] = (request.headers.authorization ?? "").split(" ");
  const { AccessToken, ClientCredentials } = provider;
  const token = value && ((await AccessToken.find(value)) ?? (await ClientCredentials.find(value)));
  if (!token || token.isExpired || token.aud !== resource || token.scope !== "tools") {
    return false;
  }
  if (!resource.endsWith("/dpop")) {
    return scheme === "Bearer";
  }
  const { payload, protectedHeader } = await jose.jwtVerify(
    request.headers.dpop ?? "",
    jose.EmbeddedJWK,
    { typ: "dpop+jwt", maxTokenAge: "60s" },
  );
  const hash = createHash("sha256").update(value).digest("base64url");
  const thumbprint = await jose.calculateJwkThumbprint(protectedHeader.jwk);
  return (
    scheme === "DPoP" &&
    payload.htm === request.method &&
    payload.htu === resource &&
    payload.ath === hash &&
    token.jkt === thumbprint
  );
}

function send(response, status, body, headers = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

// Answers a message of MCP.
async function serve(request, response, path) {
  if (!(await isAuthorized(request, issuer + path))) {
    const metadata = `resource_metadata="${issuer}/.well-known/oauth-protected-resource${path}"`;
    const scheme = path === "/dpop" ? 'DPoP algs="ES256", ' : "Bearer ";
    const challenge = `${scheme}${metadata}, scope="tools"`;
    return send(response, 401, {}, { "WWW-Authenticate": challenge });
  }
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const { id, method } = JSON.parse(Buffer.concat(chunks));
  const results = {
    "server/discover": { supportedVersions: ["2026-07-28"], capabilities: { tools: {} } },
    "tools/list": { tools: [{ name: "a", inputSchema: { type: "object" } }] },
    "tools/call": { content: [{ type: "text", text: "called" }] },
  };
  const result = { resultType: "complete", ...results[method] };
  return send(response, 200, { jsonrpc: "2.0", id, result });
}

async function handle(request, response) {
  const path = new URL(request.url, issuer).pathname;
  const metadata = "/.well-known/oauth-protected-resource";
  if (path.startsWith("/interaction/")) {
    return interact(request, response);
  } else if (path === "/mcp" || path === "/dpop") {
    return serve(request, response, path);
  } else if (path === `${metadata}/mcp` || path === `${metadata}/dpop`) {
    return send(response, 200, {
      resource: issuer + path.slice(metadata.length),
      authorization_servers: [issuer],
      scopes_supported: ["tools"],
      ...(path.endsWith("/dpop") && {
        dpop_bound_access_tokens_required: true,
        dpop_signing_alg_values_supported: ["ES256"],
      }),
    });
  } else if (path === "/expire") {
    for (const token of tokens) await token.destroy();
    tokens.clear();
    return send(response, 200, {});
  } else if (path === "/counts") {
    return send(response, 200, counts);
  } else if (path === "/key") {
    return response.end(privateKey.export({ format: "pem", type: "pkcs8" }));
  }
  return provider.callback()(request, response);
}

createServer((request, response) => {
  handle(request, response).catch((error) => {
    console.error(error);
    send(response, 500, { error: String(error) });
  });
}).listen(port, "127.0.0.1");
