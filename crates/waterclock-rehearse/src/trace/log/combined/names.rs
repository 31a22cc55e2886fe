//! The fields of a line of a server, by name.

use waterclock_config::did_you_mean;

use crate::expr::{Kind, Names};

/// The fields there are, by their places.
pub(super) const FIELDS: [&str; 14] = [
    "client_ip",
    "ident",
    "user",
    "time",
    "method",
    "path",
    "query",
    "uri",
    "protocol",
    "status",
    "bytes",
    "referer",
    "agent",
    "host",
];
const ALIASES: [(&str, usize); 2] = [("addr", 0), ("remote_addr", 0)];
pub(in super::super) const CLIENT_IP: usize = 0;
pub(in super::super) const TIME: usize = 3;
pub(super) const STATUS: usize = 9;
pub(super) const BYTES: usize = 10;
/// What follows the agent, or the bytes where there is none: `extra_1` and so on.
pub(super) const EXTRA: usize = FIELDS.len();
pub(super) const MOST_EXTRA: usize = 9;

/// The names of the fields.
pub(in super::super) struct CombinedNames;

impl Names for CombinedNames {
    fn find(&mut self, name: &str) -> Result<(usize, Kind), String> {
        let alias = || ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, place)| *place);
        match FIELDS.iter().position(|field| *field == name).or_else(alias) {
            Some(place @ (STATUS | BYTES)) => return Ok((place, Kind::Number)),
            Some(place) => return Ok((place, Kind::Text)),
            None => {}
        }
        let extra = name.strip_prefix("extra_").and_then(|number| number.parse::<usize>().ok());
        match extra {
            Some(number @ 1..=MOST_EXTRA) => Ok((EXTRA + number - 1, Kind::Any)),
            _ => {
                let hint = did_you_mean(name, FIELDS);
                let known = FIELDS.join(", ");
                Err(format!(
                    "there is no field `{name}` in this kind of log{hint} (it has {known}, and extra_1 to extra_{MOST_EXTRA} after them)"
                ))
            }
        }
    }
}
