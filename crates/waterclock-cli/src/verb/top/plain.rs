//! One snapshot as plain text.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use waterclock_rehearse::terminal::{BAD, GOOD, STRONG, WARN, grouped, styled};

use super::policy::{key_text, refusals};
use super::snapshot::{Configuration, Now, Rates, RefusedKey, Snapshot, StoreState, rate, span};

/// How many refused keys are named.
const MOST_KEYS: usize = 10;

pub(super) fn lines(now: &Now) -> Vec<String> {
    let Now { snapshot, rates, .. } = now;
    let mut lines = vec![styled(STRONG, title(snapshot)), per_second(*rates), String::new()];
    lines.extend(policies(now));
    lines.push(String::new());
    lines.extend(refused(snapshot));
    let (store, is_healthy) = store(&snapshot.store, snapshot.at_us);
    lines.push(if is_healthy { store } else { styled(BAD, store) });
    lines.push(connections(snapshot));
    let (config, is_healthy) = config(&snapshot.config, snapshot.at_us);
    lines.push(if is_healthy { config } else { styled(BAD, config) });
    lines
}

pub(super) fn title(snapshot: &Snapshot) -> String {
    let up = span(snapshot.uptime_us);
    format!("waterclock {}, {}, up {up}", snapshot.version, snapshot.phase)
}

fn per_second(rates: Rates) -> String {
    format!(
        "per second: {}, {}, {} shadow-refused, {} errors",
        styled(GOOD, format!("{} allowed", rate(rates.allowed))),
        styled(WARN, format!("{} refused", rate(rates.refused))),
        rate(rates.shadow_refused),
        rate(rates.error)
    )
}

fn policies(now: &Now) -> Vec<String> {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_header([
        "POLICY",
        "ALLOWED/S",
        "REFUSED/S",
        "SHADOW/S",
        "ALLOWED",
        "REFUSED",
        "KEYS",
    ]);
    for (policy, rates) in now.snapshot.policies.iter().zip(&now.by_policy) {
        table.add_row([
            policy.name.clone(),
            rate(rates.allowed),
            rate(rates.refused),
            rate(rates.shadow_refused),
            grouped(policy.totals.allowed),
            grouped(policy.totals.refused),
            now.snapshot.keys_of(policy),
        ]);
    }
    table.column_iter_mut().skip(1).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn refused(snapshot: &Snapshot) -> Vec<String> {
    let keys = &snapshot.refused.keys;
    if keys.is_empty() {
        return Vec::new();
    }
    let shown = &snapshot.refused.shown;
    let title = format!("most refused keys of the last minutes ({shown}):");
    let line =
        |key: &RefusedKey| format!("{:>9}  {}  {}", refusals(key), key.policy, key_text(key));
    let keys = keys.iter().take(MOST_KEYS).map(line);
    std::iter::once(title).chain(keys).chain([String::new()]).collect()
}

/// The state of the store, and whether it is healthy.
pub(super) fn store(store: &StoreState, at_us: u64) -> (String, bool) {
    let errors = store.errors.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let kinds: Vec<&str> = store
        .errors
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, _)| kind.as_str())
        .collect();
    let mut text = match store.degraded {
        true => {
            let since = store.degraded_since_us.unwrap_or(at_us);
            let nodes =
                store.nodes.map_or(1, |nodes| nodes.configured.max(nodes.alive.unwrap_or(0)));
            format!(
                "store {}: DEGRADED for {}; on_store_error applies, local with 1/{nodes} of each limit",
                store.name,
                span(at_us.saturating_sub(since))
            )
        }
        false => format!("store {}: healthy", store.name),
    };
    if errors > 0 {
        text.push_str(&format!("; {errors} failures so far ({})", kinds.join(", ")));
    }
    if store.overflowed > 0 {
        text.push_str(&format!(
            "; {} charges of keys without a slot of their own",
            store.overflowed
        ));
    }
    (text, !store.degraded)
}

pub(super) fn connections(snapshot: &Snapshot) -> String {
    let of = |(face, count): (&String, &i64)| format!("{face} {count}");
    let parts: Vec<String> = snapshot.connections.iter().map(of).collect();
    format!("connections: {}", parts.join(", "))
}

/// The configuration in force, and whether all is well with it.
pub(super) fn config(config: &Configuration, at_us: u64) -> (String, bool) {
    let reload = &config.last_reload;
    let ago = span(at_us.saturating_sub(reload.at_us));
    let mut text = format!("configuration {}, generation {}", config.file, config.generation);
    if reload.success {
        text.push_str(&format!(", in force for {ago}"));
    } else {
        let problem = reload.problems.first().map_or("", |problem| problem);
        text.push_str(&format!("; a reload {ago} ago was rejected: {problem}"));
    }
    if !config.needs_restart.is_empty() {
        text.push_str(&format!("; a restart is needed for {}", config.needs_restart.join(", ")));
    }
    (text, reload.success && config.needs_restart.is_empty())
}
