//! How it goes, while it goes: one line on a terminal, and nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::load::Load;

/// A bar that fills with time, or with requests where their number is known.
pub(super) struct Progress {
    bar: ProgressBar,
    counts_requests: bool,
}

impl Progress {
    /// How often it moves.
    pub(super) const EVERY: Duration = Duration::from_millis(200);

    pub(super) fn start(is_shown: bool, load: &Load) -> Progress {
        let length = load.requests.unwrap_or_else(|| millis(load.duration));
        let target =
            if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}") {
            bar.set_style(style);
        }
        Progress { bar, counts_requests: load.requests.is_some() }
    }

    pub(super) fn show(&self, elapsed: Duration, counts: [u64; 4]) {
        let [requests, allowed, refused, errors] = counts;
        let per_second = u128::from(requests) * 1_000 / elapsed.as_millis().max(1);
        self.bar.set_position(if self.counts_requests { requests } else { millis(elapsed) });
        self.bar.set_message(format!(
            "{per_second} requests/s, {allowed} allowed, {refused} refused, {errors} errors"
        ));
    }

    /// Takes the line away: the report follows.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
