//! Who is refused, and who sets the limit.

use serde_json::{Value, json};

use super::{BOT, OFFICE, line, lines, list, log, number, report};
use crate::support::Place;

/// Without a configuration there is advice and nothing else to know.
#[test]
fn no_configuration_at_all() {
    let place = Place::new().file("access.log", &log());
    let run = place.run(&["replay", "access.log"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let headline = run.stdout.lines().next().unwrap_or_default();
    assert!(
        headline.starts_with("no limit yet; ") && headline.ends_with(" of checks"),
        "{headline}"
    );
    run.says(&[
        "busiest clients",
        "\"203.0.113.9\"",
        "\"/login\"",
        "\"python-requests/2.31\"",
        "per-minute: apart from 2 outliers, 99 % of clients never exceed ",
        "to start with, so that 99.9 % of the others never notice\n",
        "per-second: ",
        "per-hour: ",
        "set aside, as they stand out: 2 clients, of which \"203.0.113.9\" needs ",
        "one of them looks like many users behind one address",
        "(few user agents, or mostly one: one program, or one person)",
        "per-minute at",
        "[policies.api]\n",
    ]);
    // It is a configuration, which refuses hardly any visitor, and no more than the headline says.
    let json = report(&place, &[]);
    assert_eq!(json["headline"], headline);
    let place = place.file("waterclock.toml", json["toml"].as_str().unwrap());
    place.run(&["validate"]).ok();
    let again = report(&place, &[]);
    let promised = format!("would refuse {} of 2,002 clients, ", again["clients_refused"]);
    assert!(headline.contains(&promised), "{promised}: {headline}");
    let first = &json["curves"][0];
    let start = &first["points"][usize::try_from(first["start"].as_u64().unwrap()).unwrap()];
    assert_eq!(start["checks_refused"], again["refused"]);
    assert_eq!(
        again["suggestion"],
        "nothing; apart from one outlier, it refuses at most 0.1 % of clients"
    );
    assert!((1..=3).contains(&number(&again["clients_refused"])), "{}", again["headline"]);
    assert_eq!(again["top_clients"][0]["key"], BOT);
    assert_eq!(json["limits"], json!([]));
    assert!(json["curves"][0]["current"].is_null());
    let run = Place::new().run_with_input(&["replay"], "");
    assert_eq!((run.code, run.stdout.lines().next()), (Some(0), Some("nothing to check")));
}

/// Decisions, a named policy and other commands still need a file.
#[test]
fn what_needs_a_configuration_says_so() {
    for flags in [&["--format", "jsonl"][..], &["-p", "login"], &["-c", "none.toml"]] {
        let run = Place::new().file("t", "{\"t_us\":0}\n").run(&[&["replay", "t"], flags].concat());
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{flags:?}");
    }
}

#[test]
fn the_bot_is_set_aside_and_named() {
    let place = Place::new().file("access.log", &log());
    let report = report(&place, &["--limit", "60/m"]);
    let advice = &report["advice"][0];
    assert_eq!(advice["outliers"]["largest"]["key"], BOT);
    assert_eq!(advice["outliers"]["largest"]["kind"], "one-agent");
    let most = list(&advice["percentiles"]).iter().map(|found| number(&found["limit"])).max();
    assert!(most < Some(60), "visitors need less than the bot's 20 per second: {advice}");
    let needs = advice["outliers"]["largest"]["needs"].as_str().unwrap();
    let needs: u64 = needs.strip_suffix("/min").unwrap().replace(',', "").parse().unwrap();
    assert!((500..1_300).contains(&needs), "{needs}");
    let headline = report["headline"].as_str().unwrap();
    assert!(
        headline.contains(" refused; ") && headline.contains(" of 2,002 clients"),
        "{headline}"
    );
    let run = place.run(&["replay", "access.log", "--limit", "60/m"]);
    assert_eq!(run.stdout.lines().next(), Some(headline));
    run.says(&[
        "\nwhat to change: nothing; apart from one outlier, it refuses at most 0.1 % of clients\n",
    ]);
    run.says(&["60/min (now)", "stands out if it needs at least 4 times as much"]);
}

/// Only clients that stand out are refused, and one of them looks like an office.
#[test]
fn an_office_among_the_outliers_is_told() {
    let place = Place::new().file("access.log", &log());
    let report = report(&place, &["--limit", "30/m", "--limit", "60/1h rolling-window"]);
    assert_eq!(
        report["suggestion"],
        "nothing; apart from 2 outliers, each limit alone refuses at most 0.1 % of clients; \
         one outlier looks like many users behind one address"
    );
}

/// A limit that hurts visitors: the second line says which number hurts fewer, and it does.
#[test]
fn what_to_change() {
    let place = Place::new().file("access.log", &log());
    let report = report(&place, &["--limit", "5/m"]);
    let suggestion = report["suggestion"].as_str().unwrap();
    let rest = suggestion.strip_prefix("gcra from 5/min to ").unwrap();
    let (new, rest) = rest.split_once(": refuses ").unwrap();
    let (fewer, all) = rest.split_once(" of 2,002 clients, not ").unwrap();
    assert_eq!(all.replace(',', ""), report["clients_refused"].to_string());
    let again = super::report(&place, &["--limit", new.strip_suffix("in").unwrap()]);
    assert_eq!(fewer.replace(',', ""), again["clients_refused"].to_string(), "{suggestion}");
    let run = place.run(&["replay", "access.log", "--limit", "5/m"]);
    run.says(&[&format!("\nwhat to change: {suggestion}\n")]);
    // Where nothing is refused there is nothing to change.
    assert!(super::report(&place, &["--limit", "100000/s"])["suggestion"].is_null());
}

/// One bot and an office are refused; the report tells one from the other, at each number.
#[test]
fn an_abuser_and_many_users_behind_one_address() {
    let place = Place::new().file("access.log", &log());
    let report = report(&place, &["--limit", "100/h"]);
    let clients = list(&report["top_clients"]);
    let client = |key: &str| clients.iter().find(|client| client["key"] == key).unwrap();
    let (bot, office) = (client(BOT), client(OFFICE));
    assert_eq!((&bot["kind"], &office["kind"]), (&json!("one-agent"), &json!("many-agents")));
    assert_eq!(bot["paths"], json!([["/login", 12_000]]));
    assert_eq!(bot["agents"], json!([["python-requests/2.31", 12_000]]));
    assert_eq!((number(&bot["distinct_paths"]), number(&bot["distinct_agents"])), (1, 1));
    let (paths, agents) = (number(&office["distinct_paths"]), number(&office["distinct_agents"]));
    assert!(paths.abs_diff(25) < 4 && agents.abs_diff(25) < 4, "{paths} {agents}");
    assert!(list(&office["paths"]).len() <= 5 && list(&office["agents"]).len() <= 5);
    let points = list(&report["curves"][0]["points"]);
    let at = |limit: u64| points.iter().find(|point| point["limit"] == limit).unwrap();
    assert_eq!(at(100)["kinds"], json!({ "one_agent": 1, "many_agents": 1, "unknown": 0 }));
    assert!(number(&at(10)["kinds"]["one_agent"]) > 100, "{}", at(10));
    for point in points {
        let kinds = point["kinds"].as_object().unwrap().values().map(number).sum::<u64>();
        assert_eq!(kinds, number(&point["clients_refused"]), "{point}");
    }
}

/// Bins and refusals by limit add up, for all and for each client.
#[test]
fn what_is_told_about_clients_adds_up() {
    let place = Place::new().file("access.log", &log());
    let report = report(&place, &["--limit", "60/m", "--limit", "100/1h rolling-window"]);
    let sum =
        |values: &[Value], place: usize| values.iter().map(|v| number(&v[place])).sum::<u64>();
    let bins = list(&report["timeline"]["bins"]);
    for (place, name) in ["gcra", "rolling-window"].iter().enumerate() {
        let by_bin: u64 = bins.iter().map(|bin| number(&bin["refused_by"][place])).sum();
        assert_eq!(json!(by_bin), report["refused_by"][name]);
        assert_eq!(report["limits"][place]["name"], *name);
    }
    assert_eq!(report["limits"][1]["words"], "100/h");
    let clients = list(&report["top_clients"]);
    assert_eq!(clients.len(), 50);
    for client in clients {
        let own = list(&client["bins"]);
        assert_eq!(
            (json!(sum(own, 1)), json!(sum(own, 2))),
            (client["checks"].clone(), client["refused"].clone())
        );
        for bin in own {
            let all = &bins[usize::try_from(number(&bin[0])).unwrap()];
            assert!(number(&bin[1]) <= number(&all["offered"]), "{client}");
        }
        let first = number(&bins[usize::try_from(number(&own[0][0])).unwrap()]["t_us"]);
        let width = number(&report["timeline"]["bin_us"]);
        assert!((first..first + width).contains(&number(&client["first_us"])), "{client}");
        assert!(number(&client["last_us"]) >= number(&client["first_us"]));
        assert!(sum(&[client["refused_by"].clone()], 0) <= number(&client["refused"]));
    }
    assert_eq!(report["clients"], report["keys"]);
}

/// The order of lines does not matter, as far as it can be restored.
#[test]
fn a_shuffled_log_gives_the_same_advice() {
    let sorted = report(&Place::new().file("access.log", &log()), &["--limit", "60/m"]);
    let mut lines = lines();
    let mut random = fastrand::Rng::with_seed(8);
    lines.chunks_mut(30).for_each(|some| random.shuffle(some));
    let shuffled: String = lines.into_iter().map(|(_, line)| line).collect();
    let shuffled = report(&Place::new().file("access.log", &shuffled), &["--limit", "60/m"]);
    for field in ["advice", "curves", "headline", "timeline", "toml"] {
        assert_eq!(sorted[field], shuffled[field], "{field}");
    }
}

/// Fields of other formats are found, and a log that has none says nothing about kinds.
#[test]
fn paths_and_agents_of_other_formats() {
    let jsonl: String = (0..40)
        .map(|n| format!("{{\"time\":{n},\"ip\":\"10.0.0.1\",\"uri\":\"/a/{}?q={n}\",\"user_agent\":\"u{}\"}}\n", n % 2, n % 8))
        .collect();
    let csv: String = std::iter::once("time,ip,path,agent\n".to_owned())
        .chain((0..40).map(|n| format!("{n},10.0.0.1,/a/{},u{}\n", n % 2, n % 8)))
        .collect();
    let caddy: String = (0..40)
        .map(|n| format!("{{\"ts\":{n},\"request\":{{\"remote_ip\":\"10.0.0.1\",\"uri\":\"/a/{}\",\"headers\":{{\"User-Agent\":[\"u{}\"]}}}}}}\n", n % 2, n % 8))
        .collect();
    for log in [jsonl, csv, caddy] {
        let place = Place::new().file("log", &log);
        let run = place.run(&["replay", "log", "--limit", "5/m", "--json"]);
        let client = &run.json()["top_clients"][0];
        assert_eq!(client["paths"], json!([["/a/0", 20], ["/a/1", 20]]), "{log:.200}");
        assert_eq!(
            (&client["kind"], number(&client["distinct_agents"])),
            (&json!("many-agents"), 8)
        );
    }
    let trace: String = (0..9).map(|n| format!("{{\"t_us\":{n}}}\n")).collect();
    let run = Place::new().file("t", &trace).run(&["replay", "t", "--limit", "5/m", "--json"]);
    let client = run.json()["top_clients"][0].clone();
    assert_eq!((&client["kind"], &client["paths"]), (&Value::Null, &json!([])));
}

#[test]
fn hostile_texts_stay_text() {
    let hostile = "<script>alert(1)</script>\\x1b[2J\\x00\\xe2\\x80\\xae";
    let long = "a".repeat(5_000);
    let log: String =
        (0..60).map(|n| line(n, "10.0.0.1", &format!("/{hostile}/{long}"), hostile)).collect();
    let place = Place::new().file("access.log", &log);
    let run = place.run(&["replay", "access.log", "--input", "combined", "--html", "r.html"]).ok();
    for raw in ['\u{1b}', '\0', '\u{202e}'] {
        assert!(!run.stdout.contains(raw), "{raw:?}");
    }
    assert!(!place.read("r.html").contains("<script>alert"));
    let client = report(&place, &[])["top_clients"][0].clone();
    let (path, agent) =
        (client["paths"][0][0].as_str().unwrap(), client["agents"][0][0].as_str().unwrap());
    assert!(
        path.len() <= 128 && path.starts_with("/<script>alert(1)</script>\u{1b}[2J\0\u{202e}"),
        "{path:?}"
    );
    assert!(agent.contains('\0'), "{agent:?}");
}

/// A million clients, each with its own path and agent, take no more than what is promised.
#[cfg(target_os = "linux")]
#[test]
fn a_million_clients_take_bounded_memory() {
    use std::fmt::Write as _;
    const MOST_KIB: u64 = 300 * 1_024;
    let log: String = (0..1_000_000_u32).fold(String::new(), |mut log, n| {
        let client = format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255);
        log.push_str(&line(n / 200, &client, "/item", "agent"));
        log.truncate(log.len() - 2);
        writeln!(log, "-{n:090}\"").unwrap();
        log
    });
    let place = Place::new().file("access.log", &log);
    drop(log);
    let arguments = ["replay", "access.log", "--input", "combined", "--limit", "2/m", "--json"];
    let (output, most) = crate::support::measured(&mut place.command(&arguments));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (number(&report["checks"]), &report["clients_are_estimates"]),
        (1_000_000, &json!(true))
    );
    assert_eq!(report["advice"][0]["percentiles"][2]["limit"], 1);
    assert!((10_000..MOST_KIB).contains(&most), "{most} KiB");
}
