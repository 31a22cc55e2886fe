//! Who is the primary: ask the sentinels.

use std::time::Duration;

use redis::Client;
use tokio::time::timeout;
use waterclock::{Failure, StoreError};

use crate::address::{Doors, address_of};
use crate::link::open;

/// How long one sentinel may take to answer before the next is asked.
const EACH: Duration = Duration::from_millis(100);

/// The sentinels of a service.
#[derive(Clone, Debug)]
pub(crate) struct Sentinels {
    pub(crate) hosts: Vec<String>,
    pub(crate) service: String,
    pub(crate) doors: Doors,
}

impl Sentinels {
    /// A client of the primary, by the first sentinel that knows.
    pub(crate) async fn primary(&self) -> Result<Client, StoreError> {
        let mut last = StoreError::failed(Failure::Unreachable, "no sentinel answers");
        for host in &self.hosts {
            match timeout(EACH, self.ask(host)).await {
                Ok(Ok(address)) => return self.doors.client(&address),
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }

    async fn ask(&self, host: &str) -> Result<String, StoreError> {
        let mut connection = open(&self.doors.sentinel(host)?).await?;
        let answer = redis::cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(&self.service)
            .query_async::<Option<(String, u16)>>(&mut connection)
            .await;
        match answer {
            Ok(Some((host, port))) => Ok(address_of(&host, port)),
            Ok(None) => {
                let reason = format!("the sentinel at {host} knows no service `{}`", self.service);
                Err(StoreError::failed(Failure::Unreachable, reason))
            }
            Err(error) => Err(StoreError::failed(Failure::Unreachable, error)),
        }
    }
}
