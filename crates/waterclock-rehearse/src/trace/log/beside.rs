//! What is read of a line beside its event: what was asked for, with which program, and what another limiter decided.

use super::ahead::{Entry, MOST_BESIDE};
use super::plan::{in_flag, missing};
use crate::expr::{Expression, Kind, Names, Part, Row, Value};

/// Fields that hold the path, the likeliest first, and those that hold the user agent.
const PATHS: [&str; 6] = ["path", "uri", "request_uri", "url", "request.uri", "request.path"];
const AGENTS: [&str; 6] = [
    "agent",
    "user_agent",
    "http_user_agent",
    "userAgent",
    "request.headers.User-Agent.0",
    "headers.user-agent",
];

/// Where the path and the user agent of a request are, where they are wanted and the first line has them.
#[derive(Default)]
pub(super) struct RequestFields {
    path: Option<usize>,
    agent: Option<usize>,
}

impl RequestFields {
    pub(super) fn find(names: &mut dyn Names, is_wanted: bool) -> RequestFields {
        if !is_wanted {
            return RequestFields::default();
        }
        let mut find = |likely: [&str; 6]| {
            let name = likely.into_iter().find(|name| names.has(name))?;
            names.find(name).ok().map(|(place, _)| place)
        };
        RequestFields { path: find(PATHS), agent: find(AGENTS) }
    }

    pub(super) fn write(&self, row: &dyn Row, entry: &mut Entry) {
        let write = |place: Option<usize>, room: &mut String, is_path: bool| {
            room.clear();
            let Some(text) = place.and_then(|place| row.value(place).into_text()) else { return };
            let text = match text.split_once('?') {
                Some((path, _)) if is_path => path,
                _ => &text,
            };
            let end = (0..=text.len().min(MOST_BESIDE)).rfind(|end| text.is_char_boundary(*end));
            room.push_str(&text[..end.unwrap_or(0)]);
        };
        write(self.path, &mut entry.path, true);
        write(self.agent, &mut entry.agent, false);
    }
}

/// How a line tells what another limiter decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OldDecisions {
    /// A condition that is true for lines it refused, such as `status == 429`.
    Refused(String),
    /// The field `allowed`, which is false for them.
    Allowed,
}

/// The same, ready for lines.
pub(super) struct OldDecision {
    says: Expression,
    /// Whether it says that the request was allowed, not that it was refused.
    is_allowed: bool,
}

const FLAG: &str = "--old";

impl OldDecision {
    pub(super) fn read(old: &OldDecisions, names: &mut dyn Names) -> Result<OldDecision, String> {
        match old {
            OldDecisions::Refused(text) => {
                let says = Expression::parse(FLAG, text, names, Kind::Truth)?;
                Ok(OldDecision { says, is_allowed: false })
            }
            OldDecisions::Allowed if names.has("allowed") => {
                let (place, _) = names.find("allowed")?;
                Ok(OldDecision { says: Expression::of(Part::field(place)), is_allowed: true })
            }
            OldDecisions::Allowed => Err(
                "the log has no field `allowed` that says what the old limiter decided; say it with --old, such as --old 'status == 429'"
                    .to_owned(),
            ),
        }
    }

    pub(super) fn is_refused(&self, row: &dyn Row) -> Result<bool, String> {
        let value = self.says.eval(row).map_err(in_flag(FLAG))?;
        if self.is_allowed && value == Value::Missing {
            return Err(missing(FLAG, &self.says, row));
        }
        Ok(value.to_truth().map_err(in_flag(FLAG))? != self.is_allowed)
    }
}
