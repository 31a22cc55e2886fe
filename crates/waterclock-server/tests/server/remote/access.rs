//! Which tokens get a remote store, for which policies, and what they may do.

use http::Uri;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use waterclock::{Charge, Failure, Limit, OnStoreError, Policy, Source, Store, StoreError, Verb};
use waterclock_http::RemoteStore;

use super::impostor::Impostor;
use super::{check, patient, url_of};
use crate::at_work::AtWork;
use crate::reload::Scene;

const POLICY: &str =
    "[policies.p]\nlimits = [{ name = \"l\", algorithm = \"gcra\", limit = 3, per = \"10d\" }]\n";

async fn guarded() -> (AtWork, TempDir) {
    let directory = TempDir::new().unwrap();
    let mut auth = String::new();
    for (name, roles) in
        [("checker", "\"check\""), ("client", "\"check\", \"read\""), ("admin", "\"admin\"")]
    {
        std::fs::write(directory.path().join(name), name).unwrap();
        auth.push_str(&format!("{{ token = \"file:{name}\", roles = [{roles}] }},\n"));
    }
    let path = directory.path().join("waterclock.toml");
    std::fs::write(&path, format!("[server]\nauth = [\n{auth}]\n{POLICY}")).unwrap();
    (AtWork::serving_file(&path).await, directory)
}

#[tokio::test]
async fn tokens_open_what_their_roles_say() {
    let (server, _directory) = guarded().await;
    let url = url_of(&server);
    for (store, says) in [
        (patient(&url), "(401): this needs a token with the role `read`"),
        (patient(&url).token("nonsense"), "(401): the token is not known"),
        (patient(&url).token("checker"), "(403): the token lacks the role `read`"),
    ] {
        let error = store.connect().await.unwrap_err();
        assert_eq!(error.failure(), Some(Failure::Auth));
        let error = error.to_string();
        assert!(error.contains(says) && error.contains(&url), "{error}");
        assert!(!error.contains("nonsense"), "{error}");
    }
    let charge = [Charge::new("p", b"k", 2)];
    let client = patient(&url).token("client").connect().await.unwrap();
    assert_eq!(check(&client, "p", b"k", 2).await.unwrap().source, Source::Authoritative);
    let error = client.apply(Verb::Reset, &charge).await.unwrap_err();
    assert!(error.to_string().contains("lacks the role `admin`"), "{error}");
    assert!(!client.is_degraded(), "it may still decide");
    assert!(!format!("{client:?}").contains("client"), "{client:?}");

    let admin = patient(&url).token("admin").connect().await.unwrap();
    let answer = admin.apply(Verb::Reset, &charge).await.unwrap().remove(0);
    assert_eq!((answer.decision.remaining(), answer.decision.granted()), (Some(3), 2));
    assert_eq!(check(&client, "p", b"k", 3).await.unwrap().decision.granted(), 3);
}

#[tokio::test]
async fn what_is_no_server_is_told_apart() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = patient(&format!("http://{gone}")).connect().await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::Unreachable), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");

    for list in ["200 OK", "404 Not Found", "500 Internal Server Error"] {
        let list =
            format!("HTTP/1.1 {list}\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>");
        let other = Impostor::listing(list, "").await;
        let error = patient(&other.url()).connect().await.unwrap_err();
        assert_eq!(error.failure(), Some(Failure::BadReply), "{error}");
        assert!(error.to_string().contains("is not a waterclock server"), "{error}");
    }
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused() {
    for (url, says) in [
        ("127.0.0.1:8080", "has no scheme"),
        ("https://127.0.0.1", "connect_with"),
        ("http://me:secret@127.0.0.1", "contains a user"),
        ("http://127.0.0.1/?a=b", "has a query"),
        ("no url", "is not a URL"),
    ] {
        let error = RemoteStore::builder(url).connect().await.unwrap_err();
        assert!(matches!(error, StoreError::Settings(_)), "{url}: {error}");
        let error = error.to_string();
        assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
    }
    let store = RemoteStore::builder("http://127.0.0.1");
    for (store, name) in [
        (store.clone().nodes(0), "nodes"),
        (store.clone().connections(0), "connections"),
        (store.clone().deadline(std::time::Duration::ZERO), "deadline"),
        (store.token("a\nb"), "token"),
    ] {
        let error = store.connect().await.unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[tokio::test]
async fn policies_live_on_the_server() {
    let scene = Scene::new(POLICY).await;
    let store = patient(&url_of(&scene.server)).connect().await.unwrap();
    let q = || Policy::new("q", [Limit::per_second(1).with_name("l")]).unwrap();
    let error = store.set_policy(q()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unfit(reason)
        if reason.to_string().contains("no policy `q`") && reason.to_string().contains("server's configuration")));
    assert!(matches!(check(&store, "q", b"k", 1).await, Err(StoreError::UnknownPolicy(_))));

    let both = format!("{POLICY}{}", POLICY.replace("policies.p", "policies.q"));
    scene.write("waterclock.toml", &both);
    scene.generation(2).await;
    store.set_policy(q()).await.unwrap();
    assert_eq!(check(&store, "q", b"k", 1).await.unwrap().decision.limit(), Some(3));

    scene.write("waterclock.toml", &POLICY.replace("policies.p", "policies.q"));
    scene.generation(3).await;
    // The server has it no longer, and nothing stands in for what is configured away.
    assert!(matches!(check(&store, "p", b"k", 1).await, Err(StoreError::UnknownPolicy(_))));
    let long = vec![b'k'; 1_025];
    let error = check(&store, "q", &long, 1).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unfit(reason) if reason.to_string().contains("1024 bytes")),
        "{error}"
    );
    assert!(!store.is_degraded());
}

/// As one would bring TLS or a Unix socket.
#[tokio::test]
async fn connections_of_their_own() {
    let server = AtWork::serving(POLICY).await;
    let address = server.http_address();
    let connector = tower::service_fn(move |uri: Uri| {
        assert_eq!(uri.host(), Some("waterclock.internal"));
        Box::pin(async move { TcpStream::connect(address).await.map(TokioIo::new) })
    });
    let store = patient("https://waterclock.internal/")
        .on_store_error(OnStoreError::Deny)
        .connect_with(connector)
        .await
        .unwrap();
    assert!(check(&store, "p", b"k", 3).await.unwrap().decision.is_allowed());
    assert!(!check(&store, "p", b"k", 1).await.unwrap().decision.is_allowed());
    assert!(store.apply(Verb::Check, &[]).await.unwrap().is_empty());
}
