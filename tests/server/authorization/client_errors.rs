//! What a client of this library tells of a token that the server refuses.

use corelane::Client;
use corelane::client::{ClientErrorKind, EraPreference};
use corelane::model::Revision;

use crate::authorization::{Authority, start};

#[test]
fn refused_token_is_unauthorized_on_each_transport() {
    let authority = Authority::new();
    let server = start(authority.key_options());
    let targets = [
        format!("tcp://{}", server.tcp()),
        format!("http://{}", server.http()),
        format!("ws://{}", server.http()),
    ];
    for target in &targets {
        for era in [
            EraPreference::Auto,
            EraPreference::Modern,
            EraPreference::Legacy(Revision::V2025_11_25),
            EraPreference::Legacy(Revision::V2025_03_26),
        ] {
            for token in [None, Some("key-x")] {
                let mut builder = Client::builder(target.as_str()).era(era);
                if let Some(token) = token {
                    builder = builder.bearer(token);
                }
                let error = builder.connect_blocking().expect_err("the server needs a token");
                let case = format!("{target} {era:?} {token:?}: {error}");
                match error.kind() {
                    ClientErrorKind::Unauthorized { challenge } => {
                        let has_challenge = challenge.is_some_and(|it| it.starts_with("Bearer"));
                        assert_eq!(has_challenge, !target.starts_with("tcp"), "{case}");
                    }
                    _ => panic!("{case}: {error:?}"),
                }
            }
        }
    }
    server.close();
}
