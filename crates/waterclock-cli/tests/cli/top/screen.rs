//! On a terminal.

use rustix::process::Signal;

use super::{CONFIG, SHOWN, Traffic, serve};
use crate::serve::process::Serving;
use crate::support::Place;
use crate::terminal::Terminal;

fn top(serving: &Serving, environment: &[(&str, &str)]) -> Terminal {
    Terminal::run(Place::new(), &["top", &serving.url("http"), "--interval", "200ms"], environment)
}

#[test]
fn numbers_move_and_q_ends_it() {
    let serving = serve();
    let traffic = Traffic::start(&serving);
    let mut terminal = top(&serving, &[]);
    let is_more = |word, than| {
        move |screen: &crate::terminal::Screen| {
            screen.number_after(word).is_some_and(|rate| rate > than)
        }
    };
    terminal.until("checks pass", is_more("allowed ", 5.0));
    terminal.until("checks are refused", is_more("refused ", 5.0));
    terminal.until("the refused key is named", |screen| screen.contains(SHOWN));
    let screen = terminal.screen();
    for part in [
        "policies by refused",
        "store memory: healthy",
        "connections: grpc 0, http 2, resp 0",
        "waterclock.toml, generation 1",
        "serving, up ",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    // The policy that refuses is first, and selected.
    assert!(screen.contains("narrow (hour: 2/h): 2 allowed, "), "{screen}");
    terminal.press("j");
    terminal.until("the next one is selected", |screen| screen.contains("\nwide (1,000,000/s): "));
    terminal.press("s");
    terminal.until("sorted otherwise", |screen| screen.contains("policies by allowed"));
    terminal.press("?");
    terminal.until("help", |screen| screen.contains("pause, resume"));
    terminal.press("x");
    terminal.until("no help", |screen| !screen.contains("pause, resume"));
    drop(traffic);
    terminal.until("it is quiet", |screen| screen.number_after("allowed ") == Some(0.0));
    assert!(terminal.is_raw());
    terminal.press("q");
    assert_eq!(terminal.ended(), Some(0));
    assert!(terminal.is_restored(), "{:?}", terminal.raw());
}

#[test]
fn a_pause() {
    let serving = serve();
    let _traffic = Traffic::start(&serving);
    let mut terminal = top(&serving, &[]);
    terminal.until("checks pass", |screen| {
        screen.number_after("allowed ").is_some_and(|rate| rate > 5.0)
    });
    terminal.press("p");
    terminal.until("it is paused", |screen| screen.contains("PAUSED"));
    let before = terminal.screen().text();
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(terminal.screen().text(), before);
    terminal.press("p");
    terminal.until("it goes on", |screen| !screen.contains("PAUSED") && screen.text() != before);
}

#[test]
fn every_way_out_gives_the_terminal_back() {
    let serving = serve();
    for (key, signal) in [
        (Some("\u{3}"), None),
        (Some("\u{1b}"), None),
        (None, Some(Signal::TERM)),
        (None, Some(Signal::INT)),
        (None, Some(Signal::HUP)),
    ] {
        let mut terminal = top(&serving, &[]);
        terminal.until("it is there", |screen| screen.contains("policies by refused"));
        if let Some(key) = key {
            terminal.press(key);
        }
        if let Some(signal) = signal {
            terminal.signal(signal);
        }
        assert_eq!(terminal.ended(), Some(0), "{key:?} {signal:?}");
        assert!(terminal.is_restored(), "{key:?} {signal:?}: {:?}", terminal.raw());
    }
}

#[test]
fn a_terminal_that_goes_away_ends_it() {
    let serving = serve();
    let mut terminal = top(&serving, &[]);
    terminal.until("it is there", |screen| screen.contains("policies by refused"));
    terminal.hang_up();
}

#[test]
fn a_server_that_goes_and_comes_back() {
    let serving = serve();
    let address = serving.http.to_string();
    let mut terminal = top(&serving, &[]);
    terminal.until("it is there", |screen| screen.contains("store memory: healthy"));
    drop(serving);
    terminal.until("it is away", |screen| screen.contains("cannot be reached: Connection refused"));
    assert!(terminal.screen().contains("policies by refused"), "what was seen last stays");
    let place = Place::with_config(CONFIG);
    let _again = Serving::start_with(
        place,
        &["serve", "-c", "waterclock.toml"],
        &[("WATERCLOCK_HTTP", &address)],
    );
    terminal.until("it is back", |screen| screen.contains("q quit"));
    terminal.press("q");
    assert_eq!(terminal.ended(), Some(0));
}

#[test]
fn nothing_is_drawn_where_there_is_nothing_to_see() {
    let serving = serve();
    let url = serving.url("resp").replace("redis", "http");
    let place = Place::new();
    let mut terminal = Terminal::run(place, &["top", "gopher://127.0.0.1"], &[]);
    assert_eq!(terminal.ended(), Some(2));
    assert!(terminal.is_restored() && !terminal.raw().contains("1049h"));
    let mut terminal = Terminal::run(Place::new(), &["top", &url], &[]);
    assert_eq!(terminal.ended(), Some(2));
    assert!(terminal.raw().contains("check that this is its HTTP address"), "{}", terminal.raw());
    assert!(terminal.is_restored() && !terminal.raw().contains("1049h"));
}

#[test]
fn a_server_that_is_not_there_yet() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let arguments = ["top", &*format!("http://{address}"), "--interval", "200ms"];
    let mut terminal = Terminal::run(Place::new(), &arguments, &[]);
    terminal.until("it waits", |screen| screen.contains("UNREACHABLE, retrying: http://127.0.0.1"));
    let place = Place::with_config(CONFIG);
    let environment = [("WATERCLOCK_HTTP", &*address.to_string())];
    let _serving = Serving::start_with(place, &["serve", "-c", "waterclock.toml"], &environment);
    terminal.until("it is there", |screen| screen.contains("store memory: healthy"));
    terminal.press("q");
    assert_eq!(terminal.ended(), Some(0));
}

#[test]
fn a_server_that_turns_out_to_be_closed() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let arguments = ["top", &*format!("http://{address}"), "--interval", "200ms"];
    let mut terminal = Terminal::run(Place::new(), &arguments, &[]);
    terminal.until("it waits", |screen| screen.contains("UNREACHABLE, retrying: http://127.0.0.1"));
    let auth = "auth = [{ token = \"${MY_TOKEN}\", roles = [\"read\"] }]\n";
    let place = Place::with_config(&CONFIG.replace("show_keys = true\n", auth));
    let environment = [("WATERCLOCK_HTTP", &*address.to_string()), ("MY_TOKEN", "t0ken")];
    let _serving = Serving::start_with(place, &["serve", "-c", "waterclock.toml"], &environment);
    assert_eq!(terminal.ended(), Some(2));
    assert!(terminal.is_restored(), "{:?}", terminal.raw());
    let raw = terminal.raw();
    let last = raw.rsplit("\u{1b}[?1049l").next().unwrap();
    assert!(last.contains("needs a token with the role `read`"), "{last:?}");
}

#[test]
fn colours_where_they_are_wanted() {
    let serving = serve();
    for (environment, is_coloured) in [(&[][..], true), (&[("NO_COLOR", "1")], false)] {
        let mut terminal = top(&serving, environment);
        terminal.until("it is there", |screen| screen.contains("policies by refused"));
        terminal.press("q");
        assert_eq!(terminal.ended(), Some(0));
        let raw = terminal.raw();
        // Green, as 16 or as 256 colours have it.
        let is_green = raw.contains("\u{1b}[32m") || raw.contains("38;5;2");
        assert_eq!(is_green, is_coloured, "{raw:?}");
    }
}
