//! The tasks that send: spans when some have come together, metrics now and then.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};
use waterclock::{Clock, Limit, Limiter};

use super::messages::{
    Attribute, Kind, Numbers, Resource, ResourceNumbers, ResourceSpans, Scope, ScopeNumbers,
    ScopeSpans, SpanMessage, SpanStatus, StatusCode, Traces,
};
use super::numbers::{self, Span};
use super::send::send;
use super::settings::{Settings, Target};
use super::spans::{Ended, Tracer};
use crate::server::{Phase, Server};

/// Starts to export what a server does, until it ends; then what is left is sent once more.
pub(crate) fn export(server: &Arc<Server>, settings: Settings, tasks: &mut JoinSet<()>) {
    let Settings { traces, metrics, resource, interval, delay, queue, batch } = settings;
    let attributes = resource.iter().map(|(key, value)| Attribute::new(key, value)).collect();
    let resource = Resource { attributes };
    if let Some(target) = traces {
        info!(collector = target.authority, "exporting spans of sampled callers");
        let dropped = server.engine.metrics().otlp_dropped("traces");
        let (tracer, ended) = Tracer::new(queue, dropped);
        server.engine.metrics().set_tracer(tracer);
        let exporter = Exporter::new(server, target, resource.clone(), "traces");
        tasks.spawn(exporter.spans(ended, delay, batch));
    }
    if let Some(target) = metrics {
        info!(collector = target.authority, "exporting metrics");
        let exporter = Exporter::new(server, target, resource, "metrics");
        tasks.spawn(exporter.metrics(interval));
    }
}

struct Exporter {
    server: Arc<Server>,
    target: Target,
    resource: Resource,
    signal: &'static str,
    phase: watch::Receiver<Phase>,
    log: Limiter,
}

impl Exporter {
    fn new(server: &Arc<Server>, target: Target, resource: Resource, signal: &'static str) -> Self {
        let (phase, server) = (server.phase(), Arc::clone(server));
        Exporter {
            server,
            target,
            resource,
            signal,
            phase,
            log: Limiter::new(Limit::per_minute(1)),
        }
    }

    async fn spans(self, mut ended: mpsc::Receiver<Ended>, delay: Duration, batch: usize) {
        let mut is_over = pin!(over(self.phase.clone()));
        loop {
            let mut spans = Vec::new();
            let mut until = None;
            let mut goes_on = true;
            while goes_on && spans.len() < batch {
                let left = batch - spans.len();
                let more = async {
                    match until {
                        None => ended.recv_many(&mut spans, left).await > 0,
                        // The first of them waits for others.
                        Some(until) => {
                            let more = ended.recv_many(&mut spans, left);
                            timeout_at(until, more).await.is_ok()
                        }
                    }
                };
                tokio::select! {
                    more = more => goes_on = more,
                    () = is_over.as_mut() => {
                        while let Ok(span) = ended.try_recv() {
                            spans.push(span);
                        }
                        self.send_spans(spans).await;
                        return;
                    }
                }
                until = until.or_else(|| Some(Instant::now() + delay));
            }
            self.send_spans(spans).await;
        }
    }

    async fn send_spans(&self, spans: Vec<Ended>) {
        if spans.is_empty() {
            return;
        }
        let many = spans.len() as u64;
        let scope_spans = ScopeSpans {
            scope: Some(Scope::ours()),
            spans: spans.into_iter().map(message).collect(),
        };
        let resource = Some(self.resource.clone());
        let resource_spans = vec![ResourceSpans { resource, scope_spans: vec![scope_spans] }];
        let sent = send(&self.target, &Traces { resource_spans }).await;
        self.note(sent, many);
    }

    async fn metrics(self, interval: Duration) {
        let mut is_over = pin!(over(self.phase.clone()));
        loop {
            let is_over = timeout(interval, is_over.as_mut()).await.is_ok();
            let text = self.server.scrape().await;
            let span = Span {
                start: self.server.started().as_nanos(),
                end: self.server.engine.metrics().clock().now().as_nanos(),
            };
            let metrics = numbers::of_text(&text, span);
            let scope_metrics = vec![ScopeNumbers { scope: Some(Scope::ours()), metrics }];
            let resource = Some(self.resource.clone());
            let resource_metrics = vec![ResourceNumbers { resource, scope_metrics }];
            let sent = send(&self.target, &Numbers { resource_metrics }).await;
            self.note(sent, 1);
            if is_over {
                return;
            }
        }
    }

    /// Counts what was lost, and says so once a minute at most.
    fn note(&self, sent: Result<(), String>, many: u64) {
        let Err(why) = sent else { return };
        self.server.engine.metrics().otlp_dropped(self.signal).inc_by(many);
        if self.log.check().is_allowed() {
            let (signal, collector) = (self.signal, &self.target.authority);
            warn!(collector, "cannot export {signal}: {why}; what was to be sent is dropped");
        }
    }
}

/// Ends with the server.
async fn over(mut phase: watch::Receiver<Phase>) {
    _ = phase.wait_for(|phase| *phase == Phase::Ended).await;
}

fn message(span: Ended) -> SpanMessage {
    let mut attributes = vec![Attribute::new("waterclock.face", span.face.name())];
    attributes.extend(span.outcome.map(|outcome| Attribute::new("waterclock.outcome", outcome)));
    let is_error = span.outcome.is_none_or(|outcome| outcome == "error");
    let code = if is_error { StatusCode::Error } else { StatusCode::Unset };
    SpanMessage {
        trace_id: span.trace.to_vec(),
        span_id: span.id.to_vec(),
        parent_span_id: span.parent.to_vec(),
        name: span.name.to_owned(),
        kind: Kind::Server.into(),
        start_time_unix_nano: span.started.as_nanos(),
        end_time_unix_nano: span.ended.as_nanos(),
        attributes,
        status: Some(SpanStatus { code: code.into() }),
        // Sampled, and the parent is in another process.
        flags: 0x301,
    }
}
