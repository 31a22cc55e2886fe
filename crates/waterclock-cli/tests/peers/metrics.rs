//! What the dashboard and the alerts ask for is what a running Waterclock exports.

use std::collections::BTreeSet;

use crate::deployed;
use crate::server::Server;
use crate::visitor::Visitor;

/// The names in a text that begin as ours do.
fn names(text: &str) -> BTreeSet<&str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| word.starts_with("waterclock_"))
        .collect()
}

/// The names of the samples that a server exports.
fn exported(metrics: &str) -> BTreeSet<&str> {
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.split(['{', ' ']).next()).collect()
}

#[test]
fn every_query_names_an_exported_metric() {
    let server = Server::start();
    let charged = Visitor::at(1).get(server.http, "/v1/authorize?policy=login");
    assert!(charged.status < 300, "{charged:?}");
    let metrics = server.get("/metrics").body;
    let exported = exported(&metrics);
    for file in ["grafana/waterclock.json", "prometheus/alerts.yaml"] {
        let text = deployed::text(file);
        let asked = names(&text);
        assert!(asked.len() > 8, "{file} asks for {asked:?} only");
        let unknown: Vec<_> = asked.difference(&exported).collect();
        assert!(unknown.is_empty(), "{file} asks for {unknown:?}; exported are {exported:?}");
    }
    server.stop();
}

/// The dashboard is valid JSON, and leaves out nothing of what is exported.
#[test]
fn the_dashboard_shows_everything() {
    let server = Server::start();
    let metrics = server.get("/metrics").body;
    let text = deployed::text("grafana/waterclock.json");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 10));
    let shown = names(&text);
    let missing: Vec<_> = exported(&metrics)
        .into_iter()
        .filter(|name| name.starts_with("waterclock_"))
        // A histogram is shown by its buckets.
        .filter(|name| !name.ends_with("_sum") && !name.ends_with("_count"))
        .filter(|name| !shown.contains(name))
        .collect();
    assert!(missing.is_empty(), "exported, and not shown: {missing:?}");
    server.stop();
}
