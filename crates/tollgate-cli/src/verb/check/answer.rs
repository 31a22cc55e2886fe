//! An answer as people and as scripts read it.

use tollgate::{Decision, Policy};

use tollgate_server::config::Micros;
use tollgate_server::decision_line::micros_up;

pub(super) fn sentence(policy: &Policy, decision: &Decision) -> String {
    let shown = |duration| Micros(micros_up(duration));
    if decision.is_allowed() {
        let left = decision
            .remaining()
            .map_or_else(String::new, |remaining| format!("; {remaining} left"));
        let shadows: Vec<&str> = policy.names(decision.shadow_refused_by()).collect();
        let in_shadow = match &*shadows {
            [] => String::new(),
            names => format!("; in shadow, {} would have refused", names.join(" and ")),
        };
        let fresh = shown(decision.reset_after());
        return format!("allowed{left}; as fresh again in {fresh}{in_shadow}");
    }
    let retry = match decision.retry_after() {
        Some(wait) => format!("retry in {}", shown(wait)),
        None => "it will never pass: the cost is above the limit".to_owned(),
    };
    if decision.refused_by().is_empty() {
        return format!("allowed in part: {} granted; for all of it, {retry}", decision.granted());
    }
    let names: Vec<&str> = policy.names(decision.refused_by()).collect();
    format!("refused by {}; {retry}", names.join(" and "))
}
