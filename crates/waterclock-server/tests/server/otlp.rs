//! OpenTelemetry: what a collector receives, and what it never does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tonic::transport::Endpoint;
use waterclock_config::Config;
use waterclock_server::otlp::Settings;
use waterclock_server::rate_limiter::{CheckRequest, RateLimiterClient};

use crate::at_work::{AtWork, hurried};
use crate::client::Client;
use crate::patience::eventually;

const CONFIG: &str = "
[policies.login]
limits = [\"2/h\"]
[[rules]]
domain = \"d\"
policy = \"login\"
descriptor = [{ key = \"user\" }]
";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
/// No byte of it may leave the server.
const KEY: &str = "a-very-secret-key";

type PathAndBody = (String, Vec<u8>);

/// A collector that keeps the bodies it gets, by path.
#[derive(Clone, Default)]
struct Collector {
    received: Arc<Mutex<Vec<PathAndBody>>>,
}

impl Collector {
    async fn start() -> (Collector, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let collector = Collector::default();
        let received = Arc::clone(&collector.received);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let received = Arc::clone(&received);
                tokio::spawn(async move {
                    let mut bytes = Vec::new();
                    let body = loop {
                        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                            return;
                        }
                        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n")
                        else {
                            continue;
                        };
                        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                        let length =
                            head.lines().find_map(|line| line.strip_prefix("content-length: "));
                        let length: usize = length.unwrap().parse().unwrap();
                        if bytes.len() == end + 4 + length {
                            assert!(
                                head.contains("content-type: application/x-protobuf"),
                                "{head}"
                            );
                            let path = head.split(' ').nth(1).unwrap().to_owned();
                            break (path, bytes[end + 4..].to_vec());
                        }
                    };
                    received.lock().unwrap().push(body);
                    _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                });
            }
        });
        (collector, address)
    }

    fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let received = self.received.lock().unwrap();
        received.iter().filter(|(at, _)| at == path).map(|(_, body)| body.clone()).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let bodies = self.bodies("/v1/traces");
        let all = bodies.iter().flat_map(|body| Resources::decode(&**body).unwrap().resources);
        all.flat_map(|resource| resource.scopes).flat_map(|scope| scope.spans).collect()
    }
}

// As `opentelemetry-proto` has them, without what is not looked at.

#[derive(Clone, PartialEq, Message)]
struct Resources {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<Resource>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<Scope>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn settings(address: &str) -> Settings {
    let var = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(address.to_owned()),
        "OTEL_BSP_SCHEDULE_DELAY" | "OTEL_METRIC_EXPORT_INTERVAL" => Some("20".to_owned()),
        "OTEL_BSP_MAX_QUEUE_SIZE" => Some("8".to_owned()),
        "OTEL_SERVICE_NAME" => Some("edge-limiter".to_owned()),
        _ => None,
    };
    Settings::read(var).unwrap().unwrap()
}

async fn exporting(address: &str) -> AtWork {
    let config = Config::read("waterclock.toml", CONFIG).unwrap();
    let mut at_work = AtWork::with(config, hurried()).await;
    at_work.running.export(settings(address));
    at_work
}

async fn check(http: &mut Client, flags: &str) -> crate::client::Answer {
    let parent = format!("00-{TRACE}-{PARENT}-{flags}");
    let body = format!("{{\"policy\":\"login\",\"key\":\"{KEY}\"}}");
    http.send("POST", "/v1/check", &[&format!("traceparent: {parent}")], &body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sampled_callers_have_spans_and_others_have_none() {
    let (collector, address) = Collector::start().await;
    let at_work = exporting(&address).await;
    let mut http = at_work.http().await;
    assert_eq!(check(&mut http, "00").await.header("traceparent"), None, "not sampled");
    let answer = check(&mut http, "01").await;
    let told = answer.header("traceparent").unwrap().to_owned();
    assert_eq!(check(&mut http, "01").await.status, 429);
    let endpoint = Endpoint::new(format!("http://{}", at_work.grpc_address())).unwrap();
    let mut grpc = RateLimiterClient::new(endpoint.connect().await.unwrap());
    let mut request = tonic::Request::new(CheckRequest {
        policy: "login".to_owned(),
        key: Some(KEY.to_owned()),
        ..CheckRequest::default()
    });
    let parent = format!("00-{TRACE}-{PARENT}-01").parse().unwrap();
    request.metadata_mut().insert("traceparent", parent);
    let answered = grpc.check(request).await.unwrap();
    assert!(answered.metadata().contains_key("traceparent"));
    eventually("all spans arrived", async || collector.spans().len() >= 3).await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 3, "{spans:?}");
    for span in &spans {
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), PARENT.into()));
        assert!(span.kind == 2 && span.start <= span.end && span.start > 1_600_000_000_000_000_000);
    }
    assert_eq!(
        spans.iter().map(|span| &*span.name).collect::<Vec<_>>(),
        ["check", "check", "Check"]
    );
    assert_eq!(told, format!("00-{TRACE}-{}-01", hex(&spans[0].span_id)));
    let outcome = |name: &str| {
        let text = collector.bodies("/v1/traces").concat();
        text.windows(name.len()).any(|some| some == name.as_bytes())
    };
    assert!(outcome("allow") && outcome("deny") && outcome("edge-limiter"));
    // The duration of a sampled decision is an example of its bucket.
    let metrics = http.get("/metrics").await.text();
    assert!(metrics.contains(&format!(" # {{trace_id=\"{TRACE}\"}} ")), "{metrics}");
    eventually("metrics arrived", async || !collector.bodies("/v1/metrics").is_empty()).await;
    at_work.running.stop().await;
    for (path, body) in &*collector.received.lock().unwrap() {
        let has_key = body.windows(KEY.len()).any(|some| some == KEY.as_bytes());
        assert!(!has_key, "{path} has the key");
    }
    // The last export has the last numbers: three allowed or refused over HTTP, by name and label.
    let last = collector.bodies("/v1/metrics").pop().unwrap();
    let has = |text: &str| last.windows(text.len()).any(|some| some == text.as_bytes());
    for text in
        ["waterclock_decisions_total", "waterclock_decision_duration_seconds", "login", "grpc"]
    {
        assert!(has(text), "{text}");
    }
}

/// Spans that were not exported.
fn dropped(at_work: &AtWork) -> u64 {
    let text = at_work.running.server().metrics_text();
    let begins = "waterclock_otlp_dropped_total{signal=\"traces\"} ";
    text.lines().find_map(|line| line.strip_prefix(begins)).unwrap().parse().unwrap()
}

/// Whatever a collector says but that all is well, the spans are lost and counted, and decisions go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_of_a_collector_is_counted() {
    let endless = [b"HTTP/1.1 ".as_slice(), &[b'2'; 1 << 20]].concat();
    for answer in [
        &b""[..],
        b"HTTP/1.1 503 Unavailable\r\n\r\n",
        b"HTTP/1.1 200000000000000000000 OK\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0xff; 5_000],
        &endless,
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (answer, at_work) = (answer.to_vec(), exporting(&address).await);
        let collector = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                _ = stream.read(&mut [0; 64]).await;
                _ = stream.write_all(&answer).await;
            }
        });
        let mut http = at_work.http().await;
        eventually("spans are lost", async || {
            assert!([200, 429].contains(&check(&mut http, "01").await.status));
            dropped(&at_work) > 0
        })
        .await;
        at_work.running.stop().await;
        collector.abort();
    }
}

/// A collector that takes connections and says nothing: decisions go on, and what does not fit is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_collector_delays_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let at_work = exporting(&address).await;
    let mut http = at_work.http().await;
    for _ in 0..200 {
        let answer = tokio::time::timeout(Duration::from_secs(9), check(&mut http, "01")).await;
        assert!([200, 429].contains(&answer.expect("before the collector times out").status));
    }
    // 8 wait and at most 8 are being sent.
    let dropped = dropped(&at_work);
    assert!((184..200).contains(&dropped), "{dropped}");
    at_work.running.stop().await;
}
