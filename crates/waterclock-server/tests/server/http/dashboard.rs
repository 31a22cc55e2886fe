//! The files of the dashboard. What they do is tested in a browser, among the peers of the command line.

use std::collections::BTreeSet;

use crate::at_work::{AtWork, auth};
use crate::client::{Answer, Client};

const POLICIES: &str = "[policies.p]\nlimits = [\"1/s\"]\n";

/// What stands between a word and the next quotation mark, wherever that is.
fn quoted_after<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(word).skip(1).filter_map(|rest| rest.split('"').next())
}

/// Every file that the page leads to, with its path.
async fn files(client: &mut Client) -> Vec<(String, Answer)> {
    let mut found = Vec::new();
    let (mut known, mut next) = (BTreeSet::new(), vec!["/".to_owned()]);
    while let Some(path) = next.pop() {
        if !known.insert(path.clone()) {
            continue;
        }
        let file = client.get(&path).await;
        assert_eq!(file.status, 200, "{path}");
        let folder = &path[..=path.rfind('/').unwrap()];
        let scripts = quoted_after(&file.body, "from \"./").map(|name| format!("{folder}{name}"));
        let linked = quoted_after(&file.body, "src=\"")
            .chain(quoted_after(&file.body, "rel=\"stylesheet\" href=\""))
            .map(|name| format!("/{name}"));
        let is_page = path == "/";
        next.extend(scripts.chain(linked.filter(|_| is_page)));
        found.push((path, file));
    }
    found
}

#[tokio::test]
async fn every_file_is_there_and_safe() {
    let server = AtWork::serving(POLICIES).await;
    let files = files(&mut server.http().await).await;
    assert!(files.len() >= 18, "{:?}", files.iter().map(|(path, _)| path).collect::<Vec<_>>());
    let bytes: usize = files.iter().map(|(_, file)| file.body.len()).sum();
    assert!(bytes < 100_000, "one small page has {bytes} bytes");
    for (path, file) in &files {
        let policy = file.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self'; "), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{path}");
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(file.header("cache-control"), Some("no-cache"), "{path}");
        let kind = match path.rsplit('.').next().unwrap() {
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(file.header("content-type"), Some(kind), "{path}");
        // Nothing from elsewhere, nothing that the policy would stop, and no text that becomes HTML.
        for never in [
            " style=\"",
            " onclick=\"",
            "<style",
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "eval(",
        ] {
            assert!(!file.body.contains(never), "{path}: {never}");
        }
        let elsewhere = file.body.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "{path}");
    }
}

#[tokio::test]
async fn what_a_browser_has_is_not_sent_again() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let page = client.get("/").await;
    let tag = page.header("etag").unwrap().to_owned();
    assert!(tag.len() == 18 && tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    assert_ne!(client.get("/dashboard.js").await.header("etag"), Some(&*tag));
    let known = format!("if-none-match: \"other\", {tag}");
    let again = client.send("GET", "/", &[&known], "").await;
    assert_eq!((again.status, &*again.body), (304, ""));
    let changed = client.send("GET", "/", &["if-none-match: \"other\""], "").await;
    assert_eq!((changed.status, changed.body), (200, page.body));
}

/// The page needs no token: it asks for one where the server does.
#[tokio::test]
async fn the_page_needs_no_token() {
    let auth = auth(&[("reader", "read")]) + POLICIES;
    let server = AtWork::serving(&auth).await;
    assert_eq!(files(&mut server.http().await).await[0].1.status, 200);
}
