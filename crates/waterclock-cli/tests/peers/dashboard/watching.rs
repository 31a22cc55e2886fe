//! The overview: numbers that move, and banners when something is wrong.

use waterclock_conformance::real::{RedisServer, await_that};

use super::traffic::{Traffic, by_resp, check_by_http};
use super::{POLICIES, Scene};

#[test]
fn the_page_loads_and_talks_to_no_other_host() {
    let scene = Scene::new().live();
    let browser = &scene.browser;
    assert_eq!(browser.run("return document.title", &[]), "Waterclock");
    browser.await_text("#store", "memory, healthy");
    browser.await_text("#config", "generation 1");
    assert_eq!(browser.run("return document.querySelectorAll('#policies tr').length", &[]), 9);
    assert!(browser.text("footer").contains("Metrics"), "{}", browser.text("footer"));
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
        by_resp(server.resp, "RL.CHECK slow bob"),
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
        row("slow").contains('%') && row("slow").contains("burst: 1/4 s, capacity 5")
    });
    assert!(browser.text("#policies-span").starts_with("Refused share and charts: the last 2 min"));
    await_that("what callers make up", || row("@throttle").contains('%'));
    let drawn = || {
        browser.run("return [...document.querySelectorAll('#chart path')].map((path) => path.getAttribute('d'))", &[])
    };
    await_that("a picture of all three", || {
        drawn().as_array().is_some_and(|paths| {
            paths.len() == 3 && paths.iter().all(|path| path.as_str().is_some_and(|d| d.len() > 20))
        })
    });
    // The picture in words.
    browser.await_text("#chart .chart-text", "; now Allowed/s ");
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
    scene.browser.await_text("#connection", "Server unreachable");
    scene.browser.await_text("#notice", "Stale: last updated at");
    assert_eq!(scene.browser.text("#rate-allow"), "–", "unknown is not shown as a number");
    // With another file, and hidden for longer than the server takes to start.
    scene.hide(true);
    scene.browser.await_text("#connection", "Paused while hidden");
    scene.server.rewrite(&format!("{POLICIES}[policies.young]\nlimits = [\"1/s\"]\n"));
    scene.server.start_again();
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert_eq!(state(&scene), "waiting", "the page is hidden");
    scene.hide(false);
    scene.browser.await_text("#connection", "Live");
    assert_eq!(state(&scene), "good");
    scene.browser.await_text("#policy", "young");
    // Hanging is no better than being gone.
    scene.server.pause();
    await_that("the page notices silence", || state(&scene) == "bad");
    scene.server.resume();
    scene.browser.await_text("#connection", "Live");
    scene.ends_well();
}

#[test]
fn an_unreachable_store_is_shown() {
    let redis = RedisServer::start();
    let store = format!("[store]\nurl = \"redis://127.0.0.1:{}\"\nnodes = 3\n", redis.port());
    let scene = Scene::with(&store, Vec::new()).live();
    let (browser, http) = (&scene.browser, scene.server.http);
    browser.await_text("#store", "redis, healthy");
    assert_eq!(browser.text("#notice"), "");
    let traffic = Traffic::start(vec![Box::new(move || {
        check_by_http(http, "open", "k");
    })]);
    redis.pause();
    browser.await_text("#store", "degraded: unreachable for ");
    browser.await_text("#notice", "Store unreachable for ");
    browser.await_text("#notice", "This server admits 1/3 of each limit by itself");
    scene.about("slow", "zoe");
    scene.check();
    browser.await_text("#log", "(source: local)");
    redis.resume();
    browser.await_text("#store", "redis, healthy");
    await_that("the notice goes", || browser.text("#notice").is_empty());
    browser.await_text("#store", "errors so far");
    drop(traffic);
    scene.ends_well();
}

#[test]
fn an_invalid_file_is_shown() {
    let scene = Scene::new().live();
    let browser = &scene.browser;
    scene.server.rewrite("[policies.<b>bold</b>]\nlimits = [\"1/s\"]\n");
    browser.await_text("#notice", "The new configuration is invalid");
    browser.await_text("#config", "was rejected");
    browser.await_text("#config li", "waterclock.toml:1:");
    scene.server.rewrite(&format!(
        "[server]\nresp = \"127.0.0.1:1\"\n{POLICIES}[policies.new]\nlimits = [\"1/s\"]\n"
    ));
    browser.await_text("#config", "generation 2");
    browser.await_text("#config", "Needs a restart: server.resp");
    browser.await_text("#policy", "new");
    await_that("the notice goes", || browser.text("#notice").is_empty());
    scene.ends_well();
}

/// A browser opens at most six connections to an HTTP/1.1 server; hidden pages need none.
#[test]
fn many_tabs_work() {
    let scene = Scene::new().live();
    let url = format!("http://127.0.0.1:{}/", scene.server.http);
    for _ in 0..7 {
        scene.browser.open_tab(&url);
        scene.browser.await_text("#connection", "Live");
    }
    scene.ends_well();
}

/// A policy that a reload removes and restores keeps its totals; they must not show as current traffic.
#[test]
fn a_reload_is_no_traffic() {
    let scene = Scene::new().live();
    let browser = &scene.browser;
    for _ in 0..500 {
        check_by_http(scene.server.http, "open", "k");
    }
    await_that("they are noticed", || browser.number("#rate-allow") > 0.0);
    await_that("and over", || browser.text("#rate-allow") == "0");
    scene.about("slow", "alice");
    let watch = "window.seen = []; const look = () => seen.push(...[...document.querySelectorAll( \
        '#rate-allow, #policies td:nth-child(3)')].map((rate) => rate.textContent)); \
        new MutationObserver(look).observe(document.querySelector('main'), { subtree: true, childList: true, characterData: true })";
    browser.run(watch, &[]);
    // More of them than a rate is made of.
    let seen = || browser.run("return seen.length", &[]).as_u64().unwrap_or_default();
    let some_events = |when: &str| {
        let before = seen();
        await_that(&format!("some events {when}"), || seen() > before + 60);
    };
    let without = POLICIES.split("[policies.open]").next().unwrap_or_default();
    let fields =
        "[policies.slow]\nkey = [\"client_ip\", \"user\"]\ntiers = { pro = { factor = 0.5 } }\n";
    scene.server.rewrite(&without.replace("[policies.slow]\n", fields));
    browser.await_text("#config", "generation 2");
    // What the playground asks for follows the file.
    browser.await_text("#key-fields", "user");
    browser.await_text("#tier-label", "pro");
    assert!(!browser.text("#policy").contains("open"));
    some_events("without it");
    scene.server.rewrite(POLICIES);
    browser.await_text("#config", "generation 3");
    browser.await_text("#policy", "open");
    browser.await_text("#key-fields", "Key");
    some_events("after it");
    let others = "return [...new Set(seen)].sort()";
    assert_eq!(browser.run(others, &[]), serde_json::json!(["0", "–"]));
    scene.ends_well();
}

/// The page respects `Retry-After`, also if it makes no sense.
#[test]
fn retry_after_is_respected() {
    let scene = Scene::new().live();
    let browser = &scene.browser;
    for later in ["0", "Wed, 21 Oct 2015 07:28:00 GMT", "soon", ""] {
        let script = format!(
            "const there = window.fetch; window.asked = 0; window.fetch = (url, how) => {{ \
                if (!String(url).includes('v1/live')) return there(url, how); \
                window.asked += 1; \
                return Promise.resolve(new Response('{{}}', {{ status: 503, headers: {{ 'retry-after': '{later}' }} }})); \
            }}"
        );
        let source = serde_json::json!({ "source": script });
        let made = browser.chromium("Page.addScriptToEvaluateOnNewDocument", &source);
        browser.run("location.reload()", &[]);
        browser.await_text("#connection", "status 503");
        std::thread::sleep(std::time::Duration::from_secs(2));
        let asked = browser.run("return window.asked", &[]);
        assert!((1..=5).contains(&asked.as_u64().unwrap_or(0)), "{later:?}: {asked}");
        browser.chromium("Page.removeScriptToEvaluateOnNewDocument", &made);
    }
    scene.ends_well();
}
