//! The scenarios with authorization: a server that names its authorization servers, and one tool.

use std::error::Error;

use corelane::Client;
use corelane::client::{
    ClientError, ClientErrorKind, IdentityAssertion, OAuthOptions, SigningAlgorithm,
};
use serde_json::{Value, json};

use super::{Outcome, call, context, expect, expect_tools};

/// The metadata document that stands for the client; it is never read.
const METADATA_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// The scenarios in which the client must obtain no access.
const REFUSED: [&str; 7] = [
    "auth/iss-normalized",
    "auth/iss-supported-missing",
    "auth/iss-unexpected",
    "auth/iss-wrong-issuer",
    "auth/metadata-issuer-mismatch",
    "auth/resource-mismatch",
    "auth/scope-retry-limit",
];

pub(super) async fn run(scenario: &str, url: &str) -> Outcome {
    let client = Client::builder(url).oauth(options(scenario)?).connect().await;
    if REFUSED.contains(&scenario) {
        return expect_refusal(client);
    }
    let client = client?;
    expect_tools(&client, &["test-tool"]).await?;
    expect(&call(&client, "test-tool", &json!({})).await?, "test")?;
    client.close().await;
    Ok(())
}

fn expect_refusal(client: Result<Client, ClientError>) -> Outcome {
    match client {
        Err(error) if error.kind() == ClientErrorKind::Authorization => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err("the client has obtained access".into()),
    }
}

/// Returns the options that the scenario needs.
fn options(scenario: &str) -> Result<OAuthOptions, Box<dyn Error>> {
    let options = OAuthOptions::new();
    let options = match scenario {
        "auth/basic-cimd" => {
            options.approve_automatically().client_metadata_document(METADATA_DOCUMENT)
        }
        "auth/pre-registration" => with_client(options, &context()?)?.approve_automatically(),
        "auth/client-credentials-basic" => with_client(options, &context()?)?.client_credentials(),
        "auth/client-credentials-jwt" => {
            let context = context()?;
            let name = text(&context, "signing_algorithm")?;
            let algorithm = SigningAlgorithm::from_name(name).ok_or("an unknown algorithm")?;
            let key = text(&context, "private_key_pem")?;
            let options = options.private_key(key.as_bytes(), algorithm)?;
            options.client_id(text(&context, "client_id")?).client_credentials()
        }
        "auth/enterprise-managed-authorization" => {
            let context = context()?;
            let sign_on = IdentityAssertion::new(
                text(&context, "idp_token_endpoint")?,
                text(&context, "idp_client_id")?,
                text(&context, "idp_id_token")?,
            );
            with_client(options, &context)?.identity_assertion(sign_on)
        }
        "auth/wif-jwt-bearer" => {
            let context = context()?;
            let options = options.client_id(text(&context, "client_id")?);
            options.workload_assertion(text(&context, "valid_jwt")?)
        }
        _ => options.approve_automatically(),
    };
    Ok(options)
}

fn with_client(options: OAuthOptions, context: &Value) -> Result<OAuthOptions, Box<dyn Error>> {
    let options = options.client_id(text(context, "client_id")?);
    Ok(options.client_secret(text(context, "client_secret")?))
}

fn text<'a>(context: &'a Value, name: &str) -> Result<&'a str, Box<dyn Error>> {
    context[name].as_str().ok_or_else(|| format!("the scenario has no {name}").into())
}
