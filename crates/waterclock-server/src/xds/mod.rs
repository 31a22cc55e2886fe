//! Limits that a control plane pushes: a client of xDS, state of the world, for the configuration of Envoy's reference
//! rate limit service. Envoy Gateway is such a control plane.
//!
//! One stream at a time. Each response is put in force whole and acknowledged, or rejected whole with a reason, and then
//! the old limits stay. They also stay while there is no connection. A new stream begins without a version or nonce,
//! because a control plane that was restarted counts from 1 again.

mod codec;
mod connect;
mod kept;
mod status;
mod stream;

pub use self::status::{XdsState, XdsStatus};
#[cfg(feature = "fuzzing")]
pub(crate) use self::stream::read_domains;

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use tokio::time::sleep;
use tracing::{info, warn};
use waterclock_config::XdsConfig;

use self::stream::Ended;
use crate::off_workers::off_workers;
use crate::reference::merged;
use crate::server::Server;

/// Follows a control plane for as long as the server runs.
pub(crate) async fn keep_following(server: Arc<Server>, config: XdsConfig) {
    restore(&server, &config).await;
    let config = Arc::new(config);
    let mut failures = 0;
    loop {
        let ended = stream::follow(&server, &config).await;
        server.xds().note_end(&ended);
        failures = if ended.was_useful { 0 } else { failures + 1 };
        let pause = pause(&config, failures);
        let Ended { why, .. } = ended;
        if server.xds().may_log() {
            warn!(
                server = config.server,
                "no configuration by xDS: {why}; the limits in force stay"
            );
        }
        sleep(pause).await;
    }
}

/// However short an operator wants it: a server that is away costs no processor.
const SHORTEST: Duration = Duration::from_millis(10);

/// A random share of a time that doubles with each failure: clients that lost the same server do not come back together.
fn pause(config: &XdsConfig, failures: u32) -> Duration {
    let (least, most) = (config.backoff.0.duration().max(SHORTEST), config.backoff.1.duration());
    let longest = least.saturating_mul(1 << failures.min(16)).min(most.max(least));
    let mut random = [0; 4];
    // Without random numbers the whole time is waited.
    let share = match default_provider().secure_random.fill(&mut random) {
        Ok(()) => f64::from(u32::from_be_bytes(random)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    };
    longest.mul_f64(share)
}

/// Puts the last good configuration in force until the control plane sends another.
async fn restore(server: &Arc<Server>, config: &XdsConfig) {
    let Some(path) = config.keep.clone() else { return };
    let most = config.max_bytes;
    let read = off_workers(move || kept::read(&path, most)).await;
    let restored = match read {
        Ok(None) => return,
        Ok(Some((version, domains))) => {
            merged(domains, config.merge_domains).map(|domains| (version, domains))
        }
        Err(why) => Err(why),
    };
    let outcome = match restored {
        Ok((version, domains)) => {
            let pushed = server.engine.push(domains).await;
            pushed.map(|()| version).map_err(|invalid| invalid.to_string())
        }
        Err(why) => Err(why),
    };
    match outcome {
        Ok(version) => {
            info!(version, "the last configuration by xDS is in force until the server sends one");
            server.xds().note_kept(version);
            server.reloads().note_push(server);
        }
        Err(why) => {
            warn!("the last configuration by xDS cannot be used: {why}");
            server.xds().note_error(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use waterclock_config::Micros;

    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        let config = XdsConfig::new("h:1");
        for failures in [0, 1, 5, 40, u32::MAX] {
            assert!(pause(&config, failures) <= Duration::from_secs(30));
        }
        assert!(pause(&config, 0) <= Duration::from_secs(1));
        let longest = (0..100).map(|_| pause(&config, 20)).max().unwrap();
        assert!(longest > Duration::from_secs(10), "{longest:?}");
        let mut hasty = XdsConfig::new("h:1");
        hasty.backoff = (Micros(0), Micros(0));
        let total: Duration = (0..100).map(|_| pause(&hasty, 3)).sum();
        assert!(total > Duration::from_millis(100), "{total:?}");
    }
}
