//! RFC 9457.

use serde::Serialize;

use super::{Reason, Refusal};
use crate::layer::Charged;

/// Where the IETF's draft on header fields registers this kind of problem.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

#[derive(Serialize)]
struct Problem {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated: Vec<String>,
}

pub(super) fn body(refusal: &Refusal<'_>) -> Vec<u8> {
    let (r#type, title, violated) = match refusal.reason {
        Reason::Limited(checked) => {
            let told = checked.iter().filter(|charged| charged.is_told());
            let violated = told.flat_map(violated).collect();
            (QUOTA_EXCEEDED, "The request exceeds a limit", violated)
        }
        Reason::Key(_) => ("about:blank", "Bad Request", Vec::new()),
        Reason::Store(_) => ("about:blank", "Service Unavailable", Vec::new()),
    };
    let status = refusal.status().as_u16();
    let problem = Problem { r#type, title, status, detail: refusal.sentence(), violated };
    serde_json::to_vec(&problem).unwrap_or_default()
}

/// `policy.limit` of everything that refused.
fn violated(charged: &Charged) -> Vec<String> {
    let refused = charged.answer.decision.refused_by();
    let name = charged.name();
    charged.policy.names(refused).map(|limit| format!("{name}.{limit}")).collect()
}
