//! The server whose keys of `CL.THROTTLE` are charged.

use waterclock_config::Micros;

use super::resp::{Connection, Reply, refused};
use super::{Due, Failed};
use crate::output::Failure;
use crate::server::{NoAnswer, Server};

/// `max_burst`, `count` and `period` with which a unit is a microsecond, and a key holds 100 years of them.
pub(super) const NUMBERS: [&str; 3] = ["3155759999999999", "1000000", "1"];
const CAPACITY_US: u64 = 3_155_760_000_000_000;

pub(super) struct NewServer {
    server: Server,
    connection: Connection,
}

impl NewServer {
    pub(super) async fn connect(server: Server) -> Result<NewServer, Failure> {
        let connected = async {
            let mut connection = Connection::open(&server).await?;
            if let Some(token) = &server.token
                && let Some(Reply::Error(text)) =
                    connection.ask(&[vec![b"AUTH", token.as_bytes()]]).await?.pop()
            {
                return Err(rejected(&text));
            }
            Ok(connection)
        };
        match connected.await {
            Ok(connection) => Ok(NewServer { server, connection }),
            Err(error) => Err(server.explain(&error).await.into()),
        }
    }

    /// Subtracts what the server has charged already. Keys with nothing left, or with an error, are removed.
    pub(super) async fn subtract_used(
        &mut self,
        due: &mut Vec<Due>,
    ) -> Result<Vec<Failed>, Failure> {
        let mut failed = Vec::new();
        let replies = self.throttle(due, |_| 0).await?;
        let keys = std::mem::take(due).into_iter();
        for (Due { key, full_in }, reply) in keys.zip(replies) {
            match reply {
                Ok(remaining_us) => {
                    let left = full_in.0.saturating_sub(CAPACITY_US.saturating_sub(remaining_us));
                    if left > 0 {
                        due.push(Due { key, full_in: Micros(left) });
                    }
                }
                Err(reason) => failed.push(Failed { key, reason }),
            }
        }
        Ok(failed)
    }

    /// Charges keys as long as they are not full; those that failed.
    pub(super) async fn charge(&mut self, due: &[Due]) -> Result<Vec<Failed>, Failure> {
        let replies = self.throttle(due, |due| due.full_in.0).await?;
        let failed = |(due, reply): (&Due, Result<u64, String>)| {
            reply.err().map(|reason| Failed { key: due.key.clone(), reason })
        };
        Ok(due.iter().zip(replies).filter_map(failed).collect())
    }

    /// What remains of each key, or the server's error.
    async fn throttle(
        &mut self,
        due: &[Due],
        quantity: impl Fn(&Due) -> u64,
    ) -> Result<Vec<Result<u64, String>>, Failure> {
        let quantities: Vec<String> = due.iter().map(|due| quantity(due).to_string()).collect();
        let commands: Vec<Vec<&[u8]>> = due
            .iter()
            .zip(&quantities)
            .map(|(due, quantity)| {
                let [max_burst, count, period] = NUMBERS.map(str::as_bytes);
                vec![&b"CL.THROTTLE"[..], &due.key, max_burst, count, period, quantity.as_bytes()]
            })
            .collect();
        let asked = async {
            let replies = self.connection.ask(&commands).await?;
            replies.into_iter().map(remaining).collect::<Result<Vec<_>, NoAnswer>>()
        };
        match asked.await {
            Ok(answers) => Ok(answers),
            Err(error) => Err(self.server.explain(&error).await.into()),
        }
    }
}

/// The third of five numbers. Errors about a key are its own; others end the import.
fn remaining(reply: Reply) -> Result<Result<u64, String>, NoAnswer> {
    match reply {
        Reply::Error(text) if text.starts_with("Cell error: a key") => Ok(Err(text)),
        Reply::Error(text) if text.contains("unknown command") => Err(NoAnswer::Stranger(
            "is not a waterclock server: it does not know CL.THROTTLE".to_owned(),
        )),
        Reply::Error(text) => Err(rejected(&text)),
        Reply::Array(numbers) => match numbers.get(2) {
            Some(Reply::Number(remaining)) => Ok(Ok(u64::try_from(*remaining).unwrap_or(0))),
            _ => Err(NoAnswer::Stranger("answers CL.THROTTLE as no server does".to_owned())),
        },
        _ => Err(NoAnswer::Stranger("answers CL.THROTTLE as no server does".to_owned())),
    }
}

/// An error about all keys. One about the token says where the token comes from.
fn rejected(text: &str) -> NoAnswer {
    let is_about_token = text.starts_with("NOAUTH") || text.starts_with("WRONGPASS");
    let rest = text.split_once(' ').map_or(text, |(_, rest)| rest);
    match refused(if is_about_token { rest } else { text }) {
        NoAnswer::Refused { reason, .. } if is_about_token => {
            NoAnswer::Refused { status: Some(http::StatusCode::UNAUTHORIZED), reason }
        }
        other => other,
    }
}
