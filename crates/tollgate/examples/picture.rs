//! Draws `docs/picture.svg`: the same traffic through seven algorithms, decided by the real engine.
//!
//!     cargo run -p tollgate --example picture

use std::fmt::Write;
use std::time::Duration;
use std::{fs, io, iter};

use tollgate::{
    EvenSlots, FixedWindow, LeakyBucket, Limit, LimitError, Limiter, ManualClock, Policy, Quota,
    RollingWindow, SlidingWindow, Timestamp,
};

const SECOND: Duration = Duration::from_secs(1);
const SECONDS: u64 = 4;
const LEFT: f64 = 24.0;
const WIDTH: f64 = 136.0 * SECONDS as f64;

/// Ten per second, seven times: a name, the limit, and its bound on what any second admits.
fn rows() -> Result<[(&'static str, Policy, usize); 7], LimitError> {
    Ok([
        ("gcra (token bucket)", Limit::per_second(10).into(), 20),
        ("leaky-bucket, drip 5", LeakyBucket::new(10, 5, SECOND / 2)?.into(), 20),
        ("fixed-window, aligned", FixedWindow::aligned(10, SECOND)?.into(), 20),
        ("sliding-window", SlidingWindow::new(10, SECOND)?.into(), 19),
        ("rolling-window", RollingWindow::new(10, SECOND)?.into(), 10),
        ("quota", Quota::new(10, SECOND)?.into(), 20),
        ("even-slots", EvenSlots::new(10, SECOND)?.into(), 11),
    ])
}

/// When requests come, in ms: four or five in each second, a burst across the edge at 2 s, and a
/// burst inside the fourth second.
fn traffic() -> Vec<u64> {
    let steady = (0..SECONDS * 1_000).step_by(230).map(|ms| ms + 20);
    let across = (0..20).map(|i| 1_800 + i * 19);
    let inside = (0..16).map(|i| 3_320 + i * 19);
    let mut all: Vec<u64> = steady.chain(across).chain(inside).collect();
    all.sort_unstable();
    all
}

/// Which of them the engine admits.
fn decide(policy: Policy, traffic: &[u64]) -> Vec<bool> {
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(policy, clock.clone());
    let admits = |&ms: &u64| {
        clock.set(Timestamp::from_micros(ms * 1_000));
        limiter.check().is_allowed()
    };
    traffic.iter().map(admits).collect()
}

fn numbers(traffic: &[u64], verdicts: &[bool], bound: usize) -> String {
    let admitted: Vec<u64> =
        traffic.iter().zip(verdicts).filter(|(_, yes)| **yes).map(|(ms, _)| *ms).collect();
    let within_a_second =
        |from: &u64| admitted.iter().filter(|ms| (*from..from + 1_000).contains(*ms)).count();
    let most = admitted.iter().map(within_a_second).max().unwrap_or(0);
    assert!(most <= bound, "a bound is a promise");
    format!("{} admitted, most in any second: {most} (bound {bound})", admitted.len())
}

fn x(ms: u64) -> f64 {
    LEFT + ms as f64 / 1_000.0 * WIDTH / SECONDS as f64
}

/// Admitted requests stand tall on the line; refused ones hang below it as small crosses.
fn tick(svg: &mut String, x: f64, line: f64, class: &str) {
    let path = match class {
        "no" => format!("M{:.1} {}l3.6 5m0-5l-3.6 5", x - 1.8, line + 4.5),
        _ => format!("M{x:.1} {line}v-22"),
    };
    let _ = writeln!(svg, r#"<path class="{class}" d="{path}"/>"#);
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let _ = writeln!(svg, r#"<text class="{class}" x="{x}" y="{y}">{words}</text>"#);
}

const HEAD: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 452" width="900" height="452" role="img">
<title>The same requests through seven algorithms at ten per second</title>
<style>
text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a }
.name { font-weight: 600; font-size: 14px; fill: #1f2328 } .mid { text-anchor: middle }
path { fill: none; stroke-width: 1.5 } .yes { stroke: #0550ae } .all { stroke: #8c959f }
.no { stroke: #d4500c; stroke-width: 1.2 } .grid { stroke: #e4e8ec; stroke-width: 1 }
.line { stroke: #afb8c1; stroke-width: 1 }
</style>
<rect width="900" height="452" rx="12" fill="#fff"/>
"##;

fn draw() -> Result<String, LimitError> {
    let (mut svg, traffic) = (HEAD.to_owned(), traffic());
    text(&mut svg, LEFT, 32.0, "name", "The same requests through seven limits of ten per second");
    tick(&mut svg, 589.0, 38.0, "yes");
    text(&mut svg, 597.0, 32.0, "", "admitted");
    tick(&mut svg, 678.0, 21.0, "no");
    text(&mut svg, 685.0, 32.0, "", "refused");
    for second in 0..=SECONDS {
        let x = x(second * 1_000);
        let _ = writeln!(svg, r#"<path class="grid" d="M{x} 56V424"/>"#);
        text(&mut svg, x, 440.0, "mid", &format!("{second} s"));
    }
    let offered = ("offered", format!("{} requests", traffic.len()), None);
    let decided = rows()?.map(|(name, policy, bound)| {
        let verdicts = decide(policy, &traffic);
        (name, numbers(&traffic, &verdicts, bound), Some(verdicts))
    });
    let mut line = 84.0;
    for (name, numbers, verdicts) in iter::once(offered).chain(decided) {
        let _ = writeln!(svg, r#"<path class="line" d="M{LEFT} {line}h{WIDTH}"/>"#);
        for (i, &ms) in traffic.iter().enumerate() {
            let class = verdicts.as_ref().map_or("all", |v| if v[i] { "yes" } else { "no" });
            tick(&mut svg, x(ms), line, class);
        }
        text(&mut svg, LEFT + WIDTH + 20.0, line - 9.0, "name", name);
        text(&mut svg, LEFT + WIDTH + 20.0, line + 7.0, "", &numbers);
        line += 46.0;
    }
    Ok(svg + "</svg>\n")
}

fn main() -> io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/picture.svg");
    println!("drawing docs/picture.svg");
    fs::write(path, draw().map_err(io::Error::other)?)
}
