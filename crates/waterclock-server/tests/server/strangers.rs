//! Connections that have not authenticated, beside clients that have.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use waterclock_server::observe::Face;

use crate::at_work::{AtWork, auth};
use crate::client::Client;
use crate::patience::{LONG, eventually};

const POLICY: &str = "[policies.p]\nlimits = [\"1000000/s\"]\n";
const CHECK: &str = r#"{"policy":"p","key":"k"}"#;
const TOKEN: &str = "authorization: Bearer checker";
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// A server that knows a checker and an administrator, with these settings.
async fn guarded(settings: &str) -> AtWork {
    let auth = auth(&[("checker", "check"), ("root", "admin")]);
    AtWork::serving(&format!("{auth}{settings}\n{POLICY}")).await
}

/// A connection from another address of this machine.
async fn from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((IpAddr::from(source), 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// So many connections that say nothing, or as much as these bytes.
async fn silent(server: &AtWork, face: Face, many: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for n in 0..many {
        let source = [127, 1, 0, u8::try_from(n % 200).unwrap()];
        let mut stream = from(source, server.address(face)).await;
        // It may have to go at once.
        _ = stream.write_all(bytes).await;
        streams.push(stream);
    }
    streams
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    timeout(LONG, stream.read_to_end(&mut rest)).await.is_ok()
}

/// A command of the Redis protocol and the first line of its answer.
async fn resp(stream: &mut TcpStream, line: &str) -> String {
    stream.write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
    let mut bytes = [0; 1_024];
    let read = timeout(LONG, stream.read(&mut bytes)).await.expect("an answer").unwrap();
    String::from_utf8_lossy(&bytes[..read]).lines().next().unwrap_or_default().to_owned()
}

fn metric(server: &AtWork, name: &str) -> u64 {
    let text = server.running.server().metrics_text();
    let (_, value) = text.split_once(&format!("\n{name} ")).unwrap_or_else(|| panic!("{name}"));
    value.lines().next().unwrap().parse().unwrap()
}

/// How many connections there are over HTTP, those that were closed to make room included.
fn connected(server: &AtWork) -> u64 {
    let text = server.running.server().metrics_text();
    let of = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    };
    of("waterclock_connections{face=\"http\"}")
        + of("waterclock_connections_closed_total{face=\"http\",reason=\"strangers\"}")
}

async fn check(client: &mut Client) -> u16 {
    client.send("POST", "/v1/check", &[TOKEN], CHECK).await.status
}

/// More of them than all places, on every face: clients with a token, health checks and administrators are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_keep_nobody_out() {
    let server = guarded("max_connections = 120\nauthenticate_within = \"1h\"").await;
    let mut client = server.http().await;
    assert_eq!(check(&mut client).await, 200);
    let mut known = TcpStream::connect(server.resp_address()).await.unwrap();
    assert_eq!(resp(&mut known, "AUTH checker").await, "+OK");
    let mut hordes = Vec::new();
    for (face, bytes) in [
        (Face::Http, b"".as_slice()),
        (Face::Http, b"POST /v1/check HTTP/1.1\r\nhost: t\r\nx: "),
        (Face::Http, HTTP2),
        (Face::Grpc, b""),
        (Face::Grpc, HTTP2),
        (Face::Resp, b""),
        (Face::Resp, b"*2\r\n$4\r\nAUTH\r\n$16000\r\nx"),
    ] {
        hordes.push(silent(&server, face, 150, bytes).await);
    }
    let health = server.http().await.get("/healthz").await;
    assert_eq!(health.status, 200, "without a token");
    let admin = ["authorization: Bearer root"];
    assert_eq!(server.http().await.send("GET", "/metrics", &admin, "").await.status, 200);
    let reset = server.http().await.send("DELETE", "/v1/policies/p/keys/k", &admin, "").await;
    assert_eq!(reset.status, 200);
    for _ in 0..40 {
        assert_eq!(check(&mut server.http().await).await, 200, "newcomers with a token");
        let mut newcomer = TcpStream::connect(server.resp_address()).await.unwrap();
        assert_eq!(resp(&mut newcomer, "AUTH checker").await, "+OK");
        assert_eq!(resp(&mut newcomer, "RL.CHECK p k").await, "*6");
    }
    assert_eq!(check(&mut client).await, 200, "clients that were there before");
    assert_eq!(resp(&mut known, "RL.CHECK p k").await, "*6");
    for face in Face::ALL {
        let face = face.name();
        let name =
            format!("waterclock_connections_closed_total{{face=\"{face}\",reason=\"strangers\"}}");
        // Of 120 places, each face has 10 for strangers.
        assert!(metric(&server, &name) >= 140, "{name}");
    }
}

/// An address that has too many strangers loses its own oldest; others notice nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_makes_room_for_itself() {
    let settings = "max_unauthenticated_per_address = 8\nauthenticate_within = \"1h\"";
    let server = guarded(settings).await;
    let (one, other) = ([127, 0, 0, 1], [127, 0, 0, 2]);
    let mut of_other = from(other, server.resp_address()).await;
    let mut of_one = Vec::new();
    for _ in 0..8 {
        of_one.push(from(one, server.resp_address()).await);
    }
    let closed = "waterclock_connections_closed_total{face=\"resp\",reason=\"address\"}";
    assert_eq!(resp(&mut of_one[7], "PING").await, "-NOAUTH Authentication required.");
    assert_eq!(metric(&server, closed), 0, "eight are not too many");
    of_one.push(from(one, server.resp_address()).await);
    assert!(is_closed(&mut of_one[0]).await, "the ninth is, so the first has to go");
    eventually("it is counted", async || metric(&server, closed) == 1).await;
    for stream in &mut of_one[1..] {
        assert_eq!(resp(stream, "AUTH checker").await, "+OK");
    }
    assert_eq!(resp(&mut of_other, "AUTH checker").await, "+OK");
    // Known clients do not count: another eight may come.
    for _ in 0..8 {
        of_one.push(from(one, server.resp_address()).await);
    }
    for stream in &mut of_one[1..9] {
        assert_eq!(resp(stream, "RL.CHECK p k").await, "*6");
    }
}

/// What a load test does: 256 connections from one address, all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_test_from_one_address() {
    let (open, guarded) = (AtWork::serving(POLICY).await, guarded("").await);
    for server in [&open, &guarded] {
        let mut clients = Vec::new();
        for _ in 0..256 {
            clients.push(server.http().await);
        }
        for _ in 0..3 {
            for client in &mut clients {
                assert_eq!(check(client).await, 200);
            }
        }
    }
}

/// A connection has some time to send a request that is let in, whatever else it sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_to_authenticate() {
    let server = guarded("authenticate_within = \"500ms\"").await;
    let mut known = TcpStream::connect(server.resp_address()).await.unwrap();
    assert_eq!(resp(&mut known, "AUTH checker").await, "+OK");
    let mut client = server.http().await;
    assert_eq!(check(&mut client).await, 200);
    for (face, bytes) in [
        (Face::Http, b"".as_slice()),
        (Face::Http, b"GET /heal"),
        (Face::Http, HTTP2),
        (Face::Grpc, b""),
        (Face::Grpc, HTTP2),
        (Face::Resp, b""),
        (Face::Resp, b"AUTH wrong\r\nAUTH x"),
    ] {
        let mut late = TcpStream::connect(server.address(face)).await.unwrap();
        late.write_all(bytes).await.unwrap();
        let text = String::from_utf8_lossy(bytes);
        assert!(is_closed(&mut late).await, "{}: {text:?}", face.name());
    }
    let late = |face: Face| {
        let name = face.name();
        format!("waterclock_connections_closed_total{{face=\"{name}\",reason=\"late\"}}")
    };
    for face in Face::ALL {
        eventually("it is counted", async || metric(&server, &late(face)) >= 2).await;
    }
    assert_eq!(resp(&mut known, "RL.CHECK p k").await, "*6", "a known one stays");
    assert_eq!(check(&mut client).await, 200);
}

/// Unfinished commands of strangers take a small share of the memory for them, and nothing of the others'.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_commands_of_strangers() {
    let server = guarded("max_receive_bytes = \"4MiB\"").await;
    let arguments = format!("$16000\r\n{}\r\n", "x".repeat(16_000)).repeat(9);
    let unfinished = format!("*10\r\n{arguments}$16000\r\n");
    let _strangers = silent(&server, Face::Resp, 40, unfinished.as_bytes()).await;
    let refused = "waterclock_receive_refused_total{face=\"resp\"}";
    // Of 4 MiB, 256 KiB are for strangers, and 64 KiB of those for short commands.
    eventually("most are refused", async || metric(&server, refused) >= 36).await;
    assert!(metric(&server, "waterclock_receive_bytes") <= 256 << 10);
    let mut client = TcpStream::connect(server.resp_address()).await.unwrap();
    assert_eq!(resp(&mut client, "AUTH checker").await, "+OK");
    let long = format!(
        "*17\r\n$3\r\nDEL\r\n{}",
        format!("$60000\r\n{}\r\n", "k".repeat(60_000)).repeat(16)
    );
    let answer = resp(&mut client, long.trim_end()).await;
    assert!(answer.contains("a key must be at most"), "it was read whole: {answer}");
}

/// A refusal for want of memory, as the Redis protocol spells it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_without_room_is_told_so() {
    let server = guarded("max_receive_bytes = \"4MiB\"").await;
    let mut told = 0;
    let mut streams = Vec::new();
    for n in 1..=4 {
        let mut stream = from([127, 0, 0, n], server.resp_address()).await;
        assert_eq!(resp(&mut stream, "AUTH checker").await, "+OK");
        let arguments = format!("$64000\r\n{}\r\n", "x".repeat(64_000)).repeat(16);
        _ = stream.write_all(format!("*18\r\n$3\r\nDEL\r\n{arguments}").as_bytes()).await;
        streams.push(stream);
    }
    // Each needs 1 MiB, and one or two of them find it.
    for stream in &mut streams {
        let mut bytes = [0; 100];
        let wait = timeout(Duration::from_secs(2), stream.read(&mut bytes)).await;
        let Ok(Ok(read)) = wait else { continue };
        told += usize::from(bytes[..read].starts_with(b"-BUSY "));
    }
    assert!((2..=3).contains(&told), "{told}");
    let mut client = TcpStream::connect(server.resp_address()).await.unwrap();
    assert_eq!(resp(&mut client, "AUTH checker").await, "+OK");
    assert_eq!(resp(&mut client, "RL.CHECK p k").await, "*6", "short commands have room");
}

/// A connection that is busy stays, and those that are silent make room, though they came later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_silent_make_room_for_the_busy() {
    let server = guarded("max_connections = 120\nauthenticate_within = \"1h\"").await;
    let mut probe = server.http().await;
    let mut others = Vec::new();
    for number in 1..=40 {
        // Of 120 places, HTTP has 10 for strangers.
        assert_eq!(probe.get("/healthz").await.status, 200, "the same connection");
        others.extend(silent(&server, Face::Http, 1, b"").await);
        // The kernel connects them before the server gets to it; ten at once would leave no place for the probe.
        eventually("it is let in", async || connected(&server) > number).await;
    }
}

/// One address cannot have all places of known clients, with a token or where none is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_leaves_known_places_to_others() {
    let settings = "max_connections = 120\nauthenticate_within = \"1h\"\n";
    let open = AtWork::serving(&format!("[server]\n{settings}{POLICY}")).await;
    for server in [open, guarded(settings).await] {
        // HTTP can have 60 of the 90 places.
        let mut greedy = Vec::new();
        for _ in 0..70 {
            greedy.push(server.http().await);
            assert_eq!(check(greedy.last_mut().unwrap()).await, 200, "each is served");
        }
        let mut other = Client::over(from([127, 0, 0, 2], server.http_address()).await);
        assert_eq!(check(&mut other).await, 200);
        let _silent = silent(&server, Face::Http, 100, b"").await;
        assert_eq!(check(&mut other).await, 200, "it is known, and stays");
    }
}

fn head(length: usize) -> String {
    format!("POST /v1/check HTTP/1.1\r\nhost: t\r\n{TOKEN}\r\ncontent-length: {length}\r\n\r\n")
}

/// A valid check of so many bytes.
fn long_check(length: usize) -> String {
    let body = format!("{CHECK}{}", " ".repeat(length - CHECK.len()));
    format!("{}{body}", head(length))
}

/// Bodies that are announced and never sent take nothing from anyone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announced_bodies_take_no_memory() {
    let server = guarded("max_receive_bytes = \"4MiB\"").await;
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = server.http().await;
        client.write(head(65_536).as_bytes()).await;
        clients.push(client);
    }
    let long = server.http().await.try_send(long_check(60_000).as_bytes()).await.unwrap();
    assert_eq!(long.status, 200, "{}", long.body);
    assert_eq!(metric(&server, "waterclock_receive_refused_total{face=\"http\"}"), 0);
}

/// A client that sends long bodies and never ends them uses up the part of its address. Others find room, and so do
/// Envoy's calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_stop() {
    let server = guarded("max_receive_bytes = \"4MiB\"").await;
    let unfinished = [head(65_536), "x".repeat(60_000)].concat();
    let mut clients = Vec::new();
    for _ in 0..60 {
        let mut client = server.http().await;
        client.write(unfinished.as_bytes()).await;
        clients.push(client);
    }
    let (held, refused) =
        ("waterclock_receive_bytes", "waterclock_receive_refused_total{face=\"http\"}");
    // An address has 1.5 MiB, of which a quarter is for small requests.
    eventually("most are refused", async || metric(&server, refused) >= 41).await;
    assert!(metric(&server, held) <= 1_152 << 10, "{}", metric(&server, held));
    assert_eq!(check(&mut server.http().await).await, 200, "a small one has room");
    let from_elsewhere = || from([127, 0, 0, 2], server.http_address());
    let mut other = Client::over(from_elsewhere().await);
    let long = other.try_send(long_check(60_000).as_bytes()).await.unwrap();
    assert_eq!(long.status, 200, "{}", long.body);
    // Many addresses can fill what all protocols share, and what is kept for HTTP.
    for n in 3..=6 {
        for _ in 0..20 {
            let mut client = Client::over(from([127, 0, 0, n], server.http_address()).await);
            client.write(unfinished.as_bytes()).await;
            clients.push(client);
        }
    }
    eventually("HTTP has used all", async || metric(&server, refused) >= 80).await;
    assert_eq!(envoy_call(&server, 100_000).await, "0", "a long call is decided");
    drop(clients);
    eventually("given back", async || metric(&server, held) == 0).await;
}

/// The status of a call with so many bytes.
async fn envoy_call(server: &AtWork, bytes: usize) -> String {
    use waterclock_server::envoy::{RateLimitRequest, RateLimitServiceClient};
    let endpoint = format!("http://{}", server.grpc_address());
    let channel = tonic::transport::Endpoint::new(endpoint).unwrap().connect().await.unwrap();
    let user = crate::grpc::scene::user("x".repeat(bytes));
    let mut request = tonic::Request::new(RateLimitRequest {
        domain: "d".to_owned(),
        descriptors: vec![user],
        hits_addend: 0,
    });
    request.metadata_mut().insert("authorization", "Bearer checker".parse().unwrap());
    match RateLimitServiceClient::new(channel).should_rate_limit(request).await {
        Ok(_) => "0".to_owned(),
        Err(status) => status.to_string(),
    }
}
