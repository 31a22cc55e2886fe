//! The report of a load.

use std::time::Duration;

use serde::Serialize;
use waterclock_config::Micros;
use waterclock_rehearse::terminal::{BAD, GOOD, STRONG, WARN, styled};
use waterclock_server::observe::Face;

use super::load::Load;
use super::tally::{Bar, Tally, bars};
use crate::output::FAINT;

/// How wide the longest bar is.
const WIDEST: u64 = 40;

#[derive(Serialize)]
pub(super) struct Report {
    target: String,
    face: &'static str,
    #[serde(skip)]
    title: String,
    /// None for gRPC, where the rules of the server choose the policy.
    policy: Option<String>,
    keys: u64,
    connections: u64,
    /// Requests per second that were due, where that was asked for.
    rate: Option<u64>,
    elapsed_us: u64,
    requests: u64,
    requests_per_second: f64,
    decisions: u64,
    decisions_per_second: f64,
    allowed: u64,
    refused: u64,
    errors: u64,
    first_error: Option<String>,
    /// Requests that were due and never sent.
    unsent: u64,
    /// gRPC: no rule of the server limits the descriptor.
    #[serde(rename = "unlimited")]
    is_unlimited: bool,
    interrupted: bool,
    latency_us: Option<Latency>,
    histogram: Vec<Bar>,
}

/// In microseconds, of requests that were answered.
#[derive(Serialize)]
struct Latency {
    min: f64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
    max: f64,
}

impl Report {
    pub(super) fn new(
        load: &Load,
        tally: &Tally,
        elapsed: Duration,
        unsent: u64,
        interrupted: bool,
    ) -> Report {
        let per_second = |count: u64| tenths(count as f64 / elapsed.as_secs_f64().max(1e-9));
        Report {
            target: load.server.address.to_string(),
            face: load.server.address.face.name(),
            title: load.title(),
            policy: (load.server.address.face != Face::Grpc).then(|| load.policy.clone()),
            keys: load.keys,
            connections: load.connections,
            rate: load.rate,
            elapsed_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            requests: tally.requests,
            requests_per_second: per_second(tally.requests),
            decisions: tally.decisions(),
            decisions_per_second: per_second(tally.decisions()),
            allowed: tally.allowed,
            refused: tally.refused,
            errors: tally.errors,
            first_error: tally.first_error.clone(),
            unsent,
            is_unlimited: load.server.address.face == Face::Grpc && tally.unlimited > 0,
            interrupted,
            latency_us: Latency::of(tally),
            histogram: bars(&tally.latency),
        }
    }

    /// What may make the numbers misleading.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.is_unlimited {
            let what = "no rule of the server limits this descriptor, so every request is allowed";
            warnings.push(what.to_owned());
        }
        if self.unsent > 0 {
            let Report { unsent, .. } = self;
            warnings.push(format!(
                "{unsent} requests were due and never sent: all connections were busy"
            ));
        }
        warnings
    }

    /// Nothing at all was decided.
    pub(super) fn problem(&self) -> Option<String> {
        let why = match &self.first_error {
            _ if self.decisions > 0 => return None,
            Some(why) => why,
            None if self.interrupted => "it was interrupted before an answer came",
            None => "it was over before a request was sent; allow more with --duration",
        };
        Some(format!("{}: nothing was decided: {why}", self.target))
    }

    /// For people.
    pub(super) fn lines(&self) -> Vec<String> {
        let Report { requests, decisions, .. } = self;
        let elapsed = Micros(self.elapsed_us / 1_000 * 1_000).in_words();
        let mut lines = vec![styled(STRONG, &self.title)];
        let row = |name: &str, count: u64, rest: String| {
            format!("{name:<10}{count:>12}   {rest}").trim_end().to_owned()
        };
        let ended = if self.interrupted { ", interrupted" } else { "" };
        let rate = format!("{:.1}/s in {elapsed}{ended}", self.requests_per_second);
        lines.push(row("requests", *requests, rate));
        lines.push(row("decisions", *decisions, format!("{:.1}/s", self.decisions_per_second)));
        lines.push(styled(GOOD, row("allowed", self.allowed, share(self.allowed, *decisions))));
        let refused = row("refused", self.refused, share(self.refused, *decisions));
        lines.push(if self.refused > 0 { styled(WARN, refused) } else { refused });
        let why =
            self.first_error.as_ref().map_or_else(String::new, |why| format!("such as: {why}"));
        let errors = row("errors", self.errors, why);
        lines.push(if self.errors > 0 { styled(BAD, errors) } else { errors });
        lines.extend(self.latency_us.as_ref().map(Latency::line));
        lines.extend(self.pictures());
        lines
    }

    fn pictures(&self) -> Vec<String> {
        let most = self.histogram.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
        let all: u64 = self.histogram.iter().map(|bar| bar.count).sum();
        let line = |bar: &Bar| {
            let eighths = u128::from(bar.count) * u128::from(WIDEST) * 8 / u128::from(most);
            let drawn =
                drawn(usize::try_from(eighths).unwrap_or(0).max(usize::from(bar.count > 0)));
            let padding = " "
                .repeat(usize::try_from(WIDEST).unwrap_or(0).saturating_sub(drawn.chars().count()));
            let up_to = format!("≤ {}", Micros(bar.up_to_us).in_words());
            let share = styled(FAINT, share(bar.count, all));
            format!("{up_to:>10} {drawn}{padding} {:>10}  {share}", bar.count)
        };
        self.histogram.iter().map(line).collect()
    }
}

impl Latency {
    fn of(tally: &Tally) -> Option<Latency> {
        let latency = &tally.latency;
        let micros = |nanos: u64| tenths(nanos as f64 / 1_000.0);
        (!latency.is_empty()).then(|| Latency {
            min: micros(latency.min()),
            mean: tenths(latency.mean() / 1_000.0),
            p50: micros(latency.value_at_quantile(0.5)),
            p90: micros(latency.value_at_quantile(0.9)),
            p99: micros(latency.value_at_quantile(0.99)),
            p99_9: micros(latency.value_at_quantile(0.999)),
            max: micros(latency.max()),
        })
    }

    fn line(&self) -> String {
        let Latency { p50, p90, p99, p99_9, max, .. } = self;
        let parts = [("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p99_9), ("max", max)];
        let parts = parts.map(|(name, micros)| format!("{name} {}", readable(*micros)));
        format!("latency   {}", parts.join("   "))
    }
}

/// A bar of so many eighths.
fn drawn(eighths: usize) -> String {
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + rest
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1}%", 100.0 * part as f64 / whole as f64) }
}

/// Three digits or so, in the unit that suits.
fn readable(micros: f64) -> String {
    match micros {
        ..1_000.0 => format!("{micros:.0} µs"),
        ..1_000_000.0 => format!("{:.2} ms", micros / 1_000.0),
        _ => format!("{:.2} s", micros / 1_000_000.0),
    }
}

/// Rounded to tenths.
fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
