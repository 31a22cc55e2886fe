//! What is known of the control plane: for `/v1/config` and metrics.

use parking_lot::Mutex;
use serde::Serialize;
use waterclock::{Clock, Limit, Limiter, MonotonicClock};
use waterclock_config::XdsConfig;

use super::stream::Ended;

/// How much of an error is shown.
const MAX_ERROR: usize = 500;

/// The state of the connection to a control plane, if there is one.
pub struct XdsStatus {
    state: Option<Mutex<XdsState>>,
    log: Limiter,
}

/// What `/v1/config` shows.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct XdsState {
    /// The control plane.
    pub server: String,
    /// By which name it knows this server.
    pub node: String,
    /// Whether there is a stream now.
    pub connected: bool,
    /// The version in force; empty if there is none.
    pub version: String,
    /// Whether it was read from disk, and none has come since.
    pub from_disk: bool,
    /// How many configurations were put in force.
    pub accepted: u64,
    /// How many were rejected.
    pub rejected: u64,
    /// How many streams were opened.
    pub streams: u64,
    /// The last thing that went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When that was, in microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_at_us: Option<u64>,
}

impl XdsStatus {
    pub(crate) fn new(config: Option<&XdsConfig>) -> XdsStatus {
        let state = |config: &XdsConfig| XdsState {
            server: config.server.clone(),
            node: config.node.clone(),
            ..XdsState::default()
        };
        XdsStatus {
            state: config.map(|config| Mutex::new(state(config))),
            log: Limiter::new(Limit::per_second(1)),
        }
    }

    /// The current state; `None` if no control plane is configured.
    #[must_use]
    pub fn state(&self) -> Option<XdsState> {
        self.state.as_ref().map(|state| state.lock().clone())
    }

    /// Whether a failure may be logged: a control plane can cause many.
    pub(super) fn may_log(&self) -> bool {
        self.log.check().is_allowed()
    }

    fn change(&self, change: impl FnOnce(&mut XdsState)) {
        if let Some(state) = &self.state {
            change(&mut state.lock());
        }
    }

    pub(super) fn note_stream(&self) {
        self.change(|state| {
            state.connected = true;
            state.streams += 1;
        });
    }

    pub(super) fn note_end(&self, ended: &Ended) {
        self.change(|state| state.connected = false);
        self.note_error(ended.why.clone());
    }

    pub(super) fn note_kept(&self, version: String) {
        self.change(|state| (state.version, state.from_disk) = (version, true));
    }

    pub(super) fn note_accepted(&self, version: &str) {
        self.change(|state| {
            version.clone_into(&mut state.version);
            state.from_disk = false;
            state.accepted += 1;
        });
    }

    pub(super) fn note_rejected(&self, why: String) {
        self.change(|state| state.rejected += 1);
        self.note_error(why);
    }

    pub(super) fn note_error(&self, why: String) {
        let now = MonotonicClock::default().now().as_nanos() / 1_000;
        self.change(|state| {
            state.last_error = Some(why.chars().take(MAX_ERROR).collect());
            state.last_error_at_us = Some(now);
        });
    }

    /// Its metrics, as Prometheus reads them.
    pub(crate) fn metrics_text(&self) -> String {
        let Some(state) = self.state() else { return String::new() };
        let connected = u8::from(state.connected);
        let XdsState { accepted, rejected, streams, .. } = state;
        format!(
            "# HELP waterclock_xds_connected 1 if there is a stream to the control plane.\n\
             # TYPE waterclock_xds_connected gauge\n\
             waterclock_xds_connected {connected}\n\
             # HELP waterclock_xds_streams Streams to the control plane that were opened.\n\
             # TYPE waterclock_xds_streams counter\n\
             waterclock_xds_streams_total {streams}\n\
             # HELP waterclock_xds_updates Configurations that the control plane has sent.\n\
             # TYPE waterclock_xds_updates counter\n\
             waterclock_xds_updates_total{{outcome=\"accepted\"}} {accepted}\n\
             waterclock_xds_updates_total{{outcome=\"rejected\"}} {rejected}\n"
        )
    }
}
