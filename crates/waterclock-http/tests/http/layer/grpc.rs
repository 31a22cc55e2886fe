//! A real tonic service and client.

use std::time::Duration;

use prost::Message;
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::server::TcpIncoming;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use waterclock::MemoryStore;
use waterclock_http::{HeaderStyle, Key, RateLimitLayer, Rule};

use super::stage::policy;

/// `google.rpc.Status`, as far as it matters here.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes, tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

#[derive(Clone, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[tokio::test]
async fn resource_exhausted_with_when_to_retry() {
    let rule = Rule::new(policy("api", 2)).headers(HeaderStyle::Ietf);
    let layer =
        RateLimitLayer::builder(MemoryStore::default()).rule(rule).key(Key::header("x-user"));
    let layer = layer.build().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    tokio::spawn(async move {
        let server = tonic::transport::Server::builder().layer(layer).add_service(health);
        server.serve_with_incoming(TcpIncoming::from(listener)).await
    });
    let channel = tonic::transport::Endpoint::try_from(format!("http://{address}")).unwrap();
    let mut client = HealthClient::new(channel.connect().await.unwrap());
    let mut check = async |user: Option<&str>| {
        let mut request = tonic::Request::new(HealthCheckRequest::default());
        if let Some(user) = user {
            request.metadata_mut().insert("x-user", user.parse().unwrap());
        }
        client.check(request).await
    };
    let first = check(Some("alice")).await.unwrap();
    assert_eq!(first.metadata().get("ratelimit").unwrap(), r#""api.burst";r=1;t=10"#);
    check(Some("alice")).await.unwrap();

    let refused = check(Some("alice")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().starts_with("too many requests; retry in "), "{}", refused.message());
    assert!(refused.metadata().get("retry-after").is_some());
    let status = Status::decode(refused.details()).unwrap();
    assert_eq!((status.code, &*status.message), (8, refused.message()));
    let [detail] = &*status.details else { panic!("{status:?}") };
    assert_eq!(detail.type_url, "type.googleapis.com/google.rpc.RetryInfo");
    let delay = RetryInfo::decode(&*detail.value).unwrap().retry_delay.unwrap();
    let delay = Duration::new(delay.seconds.unsigned_abs(), delay.nanos.unsigned_abs());
    assert!(delay > Duration::from_secs(5) && delay <= Duration::from_secs(10), "{delay:?}");

    let keyless = check(None).await.unwrap_err();
    assert_eq!(keyless.code(), Code::InvalidArgument);
    assert!(keyless.message().contains("`x-user`"), "{}", keyless.message());
}
