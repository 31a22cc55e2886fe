//! The examples, started as users start them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use waterclock_conformance::real::RedisServer;

/// Cargo builds examples with the tests of a package, in the folder beside theirs.
fn example(name: &str) -> Command {
    let tests = std::env::current_exe().expect("this test is a file");
    let built = tests.ancestors().nth(2).expect("it is in a folder of the build");
    Command::new(built.join("examples").join(name))
}

/// The output of an example that ends by itself.
fn output_of(name: &str) -> String {
    let output = example(name).output();
    let output =
        output.unwrap_or_else(|error| panic!("{name}: {error}; run `cargo build --examples`"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} ended with {}: {text} {error}", output.status);
    text
}

/// A running example; it ends with the test.
struct Example {
    process: Child,
    /// `host:port`, as its first line says.
    address: String,
}

impl Example {
    fn start(name: &str, arguments: &[&str]) -> Example {
        let mut process = example(name)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}; run `cargo build --examples`"));
        let mut first = String::new();
        let output = process.stdout.as_mut().expect("a pipe");
        BufReader::new(output).read_line(&mut first).expect("it says something");
        let (_, rest) =
            first.split_once("http://").unwrap_or_else(|| panic!("no address in {first:?}"));
        let end = rest.find(|byte: char| byte.is_whitespace() || byte == '/').unwrap_or(rest.len());
        Example { process, address: rest[..end].to_owned() }
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Response<String> {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        let request = headers.iter().fold(request, |to, (name, value)| to.header(*name, *value));
        let request = request.body(Empty::<Bytes>::new()).expect("a valid request");
        let (head, body) = client.request(request).await.expect("an answer").into_parts();
        let body = body.collect().await.expect("a whole answer").to_bytes();
        Response::from_parts(head, String::from_utf8_lossy(&body).into_owned())
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

#[tokio::test]
async fn axum_api() {
    let example = Example::start("axum_api", &["127.0.0.1:0"]);
    let hello = async |user: &str| {
        let authorization = format!("Bearer {user}");
        example.ask(Method::GET, "/api/hello", &[("authorization", &authorization)]).await
    };
    for left in (0..5).rev() {
        let response = hello("alice").await;
        assert_eq!(response.body(), &format!("hello alice, {left} left\n"));
        assert_eq!(response.headers()["ratelimit-policy"], r#""api.gcra";q=5;w=60"#);
    }
    assert_eq!(hello("alice").await.status(), 429);
    for _ in 0..10 {
        assert_eq!(hello("bob").await.status(), 200);
    }
    let refused = hello("bob").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["ratelimit-policy"], r#""api.gcra";q=10;w=60"#);
    assert_eq!(hello("mallory").await.status(), 401);

    for status in [401, 401, 401, 429] {
        let response = example.ask(Method::POST, "/login", &[("x-forwarded-for", "1.2.3.4")]).await;
        assert_eq!(response.status(), status);
    }
    assert_eq!(example.ask(Method::GET, "/login", &[]).await.status(), 405);
}

#[tokio::test]
async fn tonic_service() {
    let example = Example::start("tonic_service", &["127.0.0.1:0"]);
    let endpoint = Endpoint::try_from(format!("http://{}", example.address)).unwrap();
    let mut client = HealthClient::new(endpoint.connect().await.unwrap());
    for _ in 0..3 {
        client.check(HealthCheckRequest::default()).await.expect("within the limit");
    }
    let refused = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(!refused.details().is_empty());
}

#[tokio::test]
async fn redis_shared() {
    let redis = RedisServer::start();
    let nodes = [0, 1].map(|_| Example::start("redis_shared", &[&redis.url(), "127.0.0.1:0"]));
    for turn in 0..5 {
        assert_eq!(nodes[turn % 2].ask(Method::GET, "/", &[]).await.status(), 200);
    }
    for node in &nodes {
        let refused = node.ask(Method::GET, "/", &[]).await;
        assert_eq!(refused.status(), 429);
        assert!(refused.headers().contains_key("retry-after"));
    }
}

#[test]
fn llm_gateway_never_uses_more_than_it_says() {
    let text = output_of("llm_gateway");
    let numbers: Vec<u64> = text
        .split(|character: char| !character.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    // Five answers, what they used, the limit, what went beyond the estimates, and what is left.
    let [answers @ .., used, limit, beyond, left] = &*numbers else { panic!("{text}") };
    assert_eq!((answers.len(), answers.iter().sum::<u64>(), *limit), (5, *used, 100), "{text}");
    assert!(*used > 0 && *used <= 100 + beyond, "{text}");
    assert_eq!(*left, 100_u64.saturating_sub(*used), "{text}");
    assert!(answers.contains(&0), "five estimates of 30 do not fit, so one was refused: {text}");
}

#[tokio::test]
async fn login_counts_failures_and_forgets_them() {
    let example = Example::start("login", &["127.0.0.1:0"]);
    let login = async |name: &str, password: &str| {
        example.ask(Method::POST, &format!("/login/{name}/{password}"), &[]).await
    };
    for _ in 0..3 {
        for left in (1..5).rev() {
            let wrong = login("alice", "guess").await;
            assert_eq!(
                (wrong.status().as_u16(), &**wrong.body()),
                (401, &*format!("wrong, {left} more\n"))
            );
        }
        assert_eq!(login("alice", "sesame").await.status(), 200, "and all is forgotten");
    }
    for _ in 0..5 {
        assert_eq!(login("alice", "guess").await.status(), 401);
    }
    let refused = login("alice", "sesame").await;
    assert_eq!(refused.status(), 429, "even the right one, now");
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(login("bob", "guess").await.status(), 401, "others are others");
}

#[test]
fn outgoing_hyper_is_never_refused() {
    let text = output_of("outgoing_hyper");
    assert_eq!(text.matches("200 OK").count(), 10, "{text}");
    assert!(!text.contains("429"), "{text}");
}

#[test]
fn outgoing_reqwest_keeps_its_pace() {
    let text = output_of("outgoing_reqwest");
    assert_eq!(text.matches("200 OK").count(), 6, "{text}");
    let times: Vec<u64> =
        text.lines().filter_map(|line| line.split_once(" ms")?.0.trim().parse().ok()).collect();
    // Six at ten per second, one at a time: half a second at the least.
    assert!(times.len() == 6 && times.is_sorted() && times[5] >= 500, "{text}");
}
