//! What Redis says about itself, over a connection that no contestant uses.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use super::Error;

pub struct Control(MultiplexedConnection);

/// Redis's own counters at one moment.
#[derive(Debug, Default)]
pub struct Reading {
    /// Processor time in seconds.
    cpu: f64,
    /// How often it read from a socket.
    reads: u64,
    /// Calls per command, also those made by scripts.
    calls: BTreeMap<String, u64>,
}

/// What happened between two readings.
#[derive(Debug)]
pub struct Spent {
    pub cpu: f64,
    pub reads: f64,
    pub calls: BTreeMap<String, f64>,
}

impl Reading {
    pub fn until(&self, later: &Self) -> Spent {
        let calls = later.calls.iter().map(|(name, calls)| {
            (name.clone(), (calls - self.calls.get(name).unwrap_or(&0)) as f64)
        });
        Spent {
            cpu: later.cpu - self.cpu,
            // Asking for the later reading was one of them.
            reads: (later.reads - self.reads) as f64 - 1.0,
            calls: calls.filter(|(name, calls)| *calls > 0.0 && name != "info").collect(),
        }
    }
}

impl Control {
    pub async fn connect(port: u16) -> Result<Self, Error> {
        let url = super::server::url(port);
        Ok(Self(redis::Client::open(url)?.get_multiplexed_async_connection().await?))
    }

    pub async fn forget_everything(&mut self) -> Result<(), Error> {
        Ok(redis::cmd("FLUSHALL").arg("SYNC").exec_async(&mut self.0).await?)
    }

    pub async fn read(&mut self) -> Result<Reading, Error> {
        let mut reading = Reading::default();
        for (name, value) in self.info("everything").await? {
            match name.as_str() {
                "used_cpu_user" | "used_cpu_sys" => reading.cpu += value.parse::<f64>()?,
                "total_reads_processed" => reading.reads = value.parse()?,
                _ => {
                    if let Some(command) = name.strip_prefix("cmdstat_") {
                        reading.calls.insert(command.to_owned(), calls(&value)?);
                    }
                }
            }
        }
        Ok(reading)
    }

    /// Bytes in use but for the buffers of clients, once they stop changing: tables that grew are
    /// moved step by step, and some contestants write later.
    pub async fn used_memory(&mut self) -> Result<f64, Error> {
        let mut last = f64::NAN;
        for _ in 0..20 {
            let info = self.info("memory").await?;
            let number = |name| info.get(name).and_then(|value| value.parse::<f64>().ok());
            let used = number("used_memory").ok_or("no used_memory")?;
            let used = used - number("mem_clients_normal").unwrap_or(0.0);
            if (used - last).abs() < 1_024.0 {
                return Ok(used);
            }
            last = used;
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        Ok(last)
    }

    /// The sum of `MEMORY USAGE` over all keys there are.
    pub async fn memory_of_keys(&mut self) -> Result<f64, Error> {
        let (mut cursor, mut sum) = (0_u64, 0.0);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("COUNT").arg(1_000);
            let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut self.0).await?;
            let mut pipe = redis::pipe();
            for key in &keys {
                pipe.cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0);
            }
            if !keys.is_empty() {
                let sizes: Vec<Option<f64>> = pipe.query_async(&mut self.0).await?;
                sum += sizes.into_iter().flatten().sum::<f64>();
            }
            cursor = next;
            if cursor == 0 {
                return Ok(sum);
            }
        }
    }

    async fn info(&mut self, section: &str) -> Result<BTreeMap<String, String>, Error> {
        let text: String = redis::cmd("INFO").arg(section).query_async(&mut self.0).await?;
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

/// `calls=5,usec=…`
fn calls(statistics: &str) -> Result<u64, Error> {
    let calls = statistics.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    Ok(calls.ok_or("a command without calls")?.parse()?)
}
