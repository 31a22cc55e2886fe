//! The HTTP face keeps what its OpenAPI document promises, whatever it is asked.

use crate::deployed;
use crate::installed::peer;
use crate::script;
use crate::server::Server;

/// Schemathesis makes up requests, valid and not, and compares the answers with the document.
#[test]
fn answers_as_the_document_says() {
    // With a token, so that it gets at everything.
    let token = "open-sesame";
    let auth = "auth = [{ token = \"${TOKEN}\", roles = [\"check\", \"read\", \"admin\"] }]";
    let configuration =
        deployed::text("waterclock.toml").replace("[server]", &format!("[server]\n{auth}"));
    let environment = vec![("TOKEN".to_owned(), token.to_owned())];
    let server = Server::start_with(&configuration, environment);

    let mut schemathesis = peer("python/bin/schemathesis");
    schemathesis.args(["--config-file", &script::path("schemathesis.toml"), "run"]);
    schemathesis.arg(format!("http://127.0.0.1:{}/openapi.json", server.http));
    schemathesis.args(["--header", &format!("Authorization: Bearer {token}")]);
    schemathesis.args(["--max-examples", "50", "--seed", "1", "--no-color"]);
    // A document cannot say that a name must be one of the configuration, or that a number is written
    // without a fraction.
    schemathesis.args(["--exclude-checks", "positive_data_acceptance"]);
    // It keeps what it found wrong where it runs.
    let folder = tempfile::tempdir().expect("a folder can be made");
    script::run(schemathesis.current_dir(folder.path()));
    assert_eq!(server.get("/healthz").status, 200);
    server.stop();
}
