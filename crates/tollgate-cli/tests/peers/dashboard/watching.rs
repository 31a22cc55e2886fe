//! Looking on: numbers that move, and what is said when something is wrong.

use tollgate_conformance::real::{RedisServer, await_that};

use super::traffic::{Traffic, by_resp, check_by_http};
use super::{POLICIES, Scene};

#[test]
fn the_page_loads_and_talks_to_nobody_else() {
    let scene = Scene::new().live();
    let browser = &scene.browser;
    assert_eq!(browser.run("return document.title", &[]), "Tollgate");
    browser.await_text("#store", "memory, healthy");
    browser.await_text("#config", "generation 1");
    assert_eq!(browser.run("return document.querySelectorAll('#policies tr').length", &[]), 6);
    let requested = browser.requested();
    let here = format!("http://127.0.0.1:{}/", scene.server.http);
    assert!(requested.len() >= 16, "{requested:?}");
    assert!(requested.iter().all(|url| url.starts_with(&here)), "{requested:?}");
    scene.ends_well();
}

#[test]
fn numbers_move_under_traffic_of_all_kinds() {
    let scene = Scene::new().live();
    let (browser, server) = (&scene.browser, &scene.server);
    let http = server.http;
    let traffic = Traffic::start(vec![
        Box::new(move || {
            assert_eq!(check_by_http(http, "open", "k"), 200);
        }),
        Box::new(move || {
            check_by_http(http, "watched", "w");
        }),
        by_resp(server.resp, "TG.CHECK slow bob"),
        by_resp(server.resp, "CL.THROTTLE carol 4 30 60"),
    ]);
    for rate in ["#rate-allow", "#rate-deny", "#rate-shadow"] {
        await_that(&format!("{rate} moves"), || browser.number(rate) > 0.0);
    }
    browser.await_text("#connections", "resp 2");
    let row = |name: &str| {
        let row = browser.run(
            "return [...document.querySelectorAll('#policies tr')].map((row) => row.innerText)",
            &[],
        );
        let rows = row.as_array().cloned().unwrap_or_default();
        let text = |row: &serde_json::Value| row.as_str().unwrap_or_default().to_owned();
        rows.iter().map(text).find(|row| row.starts_with(name)).unwrap_or_default()
    };
    await_that("a share of refusals", || {
        row("slow").contains('%') && row("slow").contains("burst 5")
    });
    await_that("what callers make up", || row("cl.throttle").contains('%'));
    let drawn = || {
        browser.run("return [...document.querySelectorAll('#chart path')].map((path) => path.getAttribute('d'))", &[])
    };
    await_that("a picture of all three", || {
        drawn().as_array().is_some_and(|paths| {
            paths.len() == 3 && paths.iter().all(|path| path.as_str().is_some_and(|d| d.len() > 20))
        })
    });
    // The picture in words.
    browser.await_text("#chart-text", "decisions per second; now");
    browser.await_text("#refused-table", "slow");
    assert!(
        !browser.text("#refused-table").contains("bob"),
        "keys are hashed unless told otherwise"
    );
    drop(traffic);
    await_that("rest", || {
        browser.number("#rate-allow") == 0.0 && browser.number("#rate-deny") == 0.0
    });
    scene.ends_well();
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let mut scene = Scene::new().live();
    scene.server.kill();
    let state = |scene: &Scene| {
        scene.browser.run("return document.getElementById('connection').dataset.state", &[])
    };
    await_that("the page notices", || state(&scene) == "bad");
    scene.browser.await_text("#connection", "does not answer");
    scene.browser.await_text("#notice", "What is shown was true at");
    assert_eq!(scene.browser.text("#rate-allow"), "–", "what nobody knows is not a number");
    scene.server.start_again();
    scene.browser.await_text("#connection", "Live");
    assert_eq!(state(&scene), "good");
    // Hanging is no better than being gone.
    scene.server.pause();
    await_that("the page notices silence", || state(&scene) == "bad");
    scene.server.resume();
    scene.browser.await_text("#connection", "Live");
    scene.ends_well();
}

#[test]
fn a_store_that_does_not_answer_is_told_of() {
    let redis = RedisServer::start();
    let store = format!("[store]\nurl = \"redis://127.0.0.1:{}\"\n", redis.port());
    let scene = Scene::with(&store, Vec::new()).live();
    let (browser, http) = (&scene.browser, scene.server.http);
    browser.await_text("#store", "redis, healthy");
    assert_eq!(browser.text("#notice"), "");
    let traffic = Traffic::start(vec![Box::new(move || {
        check_by_http(http, "open", "k");
    })]);
    redis.pause();
    browser.await_text("#store", "degraded");
    browser.await_text("#notice", "The store does not answer");
    scene.about("slow", "zoe");
    scene.check();
    browser.await_text("#log", "(decided by: local)");
    redis.resume();
    browser.await_text("#store", "redis, healthy");
    await_that("the notice goes", || browser.text("#notice").is_empty());
    browser.await_text("#store", "failures so far");
    drop(traffic);
    scene.ends_well();
}

#[test]
fn a_file_with_mistakes_is_told_of() {
    let scene = Scene::new().live();
    let browser = &scene.browser;
    scene.server.rewrite("[policies.<b>bold</b>]\nlimits = [\"1/s\"]\n");
    browser.await_text("#notice", "The configuration file has mistakes");
    browser.await_text("#config", "turned down");
    browser.await_text("#config li", "tollgate.toml:1:");
    scene.server.rewrite(&format!(
        "[server]\nresp = \"127.0.0.1:1\"\n{POLICIES}[policies.new]\nlimits = [\"1/s\"]\n"
    ));
    browser.await_text("#config", "generation 2");
    browser.await_text("#config", "Takes a restart: server.resp");
    browser.await_text("#policy", "new");
    await_that("the notice goes", || browser.text("#notice").is_empty());
    scene.ends_well();
}
