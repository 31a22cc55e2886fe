//! Every bound, kept and broken by one.

use tonic::Code as Grpc;
use waterclock_server::envoy::{Code, RateLimitDescriptor, RateLimitRequest};

use super::scene::{Client, Scene, ask, descriptor, per_user, request, undecided, user};

/// The error for a request, or the status of its first descriptor.
async fn outcome(client: &mut Client, request: RateLimitRequest) -> Result<Code, String> {
    match ask(client, request).await {
        Ok(response) => Ok(response.statuses[0].code()),
        Err(status) => {
            assert_eq!(status.code(), Grpc::InvalidArgument, "{status}");
            Err(status.message().to_owned())
        }
    }
}

#[tokio::test]
async fn domain_and_descriptors_must_be_there() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"5/h\"")).await;
    let nowhere = RateLimitRequest { domain: String::new(), ..request(vec![user("a")]) };
    assert_eq!(outcome(&mut client, nowhere).await, Err("`domain` must not be empty".to_owned()));
    let nothing = outcome(&mut client, request(vec![])).await;
    assert_eq!(nothing, Err("`descriptors` must hold at least one".to_owned()));
    let unknown = RateLimitRequest { domain: "x".to_owned(), ..request(vec![user("a")]) };
    assert_eq!(outcome(&mut client, unknown).await, Ok(Code::Ok));
}

#[tokio::test]
async fn descriptors() {
    let (scene, mut client) = Scene::with_client(&per_user("\"100/h\"")).await;
    let many = |count: usize| request((0..count).map(|at| user(at.to_string())).collect());
    let response = ask(&mut client, many(1_024)).await.unwrap();
    assert_eq!((response.overall_code(), response.statuses.len()), (Code::Ok, 1_024));
    assert!(response.statuses.iter().all(|status| status.limit_remaining == 99));
    // More than can be decided is refused: a proxy would admit an error.
    let response = ask(&mut client, many(1_025)).await.unwrap();
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(undecided(&scene), 1);
}

/// Empty descriptors and entries are large in memory, so they are counted before they are decoded.
#[tokio::test]
async fn empty_descriptors_and_entries() {
    let (scene, mut client) = Scene::with_client(&per_user("\"100/h\"")).await;
    let empty = request(vec![RateLimitDescriptor::default(); 500_000]);
    assert_eq!(ask(&mut client, empty).await.unwrap().overall_code(), Code::OverLimit);
    let wide = |entries: usize| request(vec![descriptor(&vec![("", ""); entries])]);
    assert_eq!(ask(&mut client, wide(16_384)).await.unwrap().overall_code(), Code::Ok);
    assert_eq!(ask(&mut client, wide(16_385)).await.unwrap().overall_code(), Code::OverLimit);
    assert_eq!(undecided(&scene), 2);
}

/// A value that looks like the hash of another is a value of its own.
#[tokio::test]
async fn a_hash_is_no_other_key() {
    use sha2::{Digest, Sha256};
    let config = "[policies.p]\nkey = [\"user\"]\nlimits = [\"1/h\"]\n\
                  [[rules]]\ndomain = \"d\"\npolicy = \"p\"\ndescriptor = [{ key = \"user\" }]\n";
    let (_scene, mut client) = Scene::with_client(config).await;
    let long = "x".repeat(2_000);
    let forged = [b"#".as_slice(), &Sha256::digest(&long)].concat();
    for value in [long.as_bytes(), &forged] {
        let value = || request(vec![user(value)]);
        assert_eq!(outcome(&mut client, value()).await, Ok(Code::Ok));
        assert_eq!(outcome(&mut client, value()).await, Ok(Code::OverLimit));
    }
}

#[tokio::test]
async fn entries() {
    let all: Vec<String> = (0..64).map(|_| "{ key = \"k\" }".to_owned()).collect();
    let config = format!(
        "[policies.p]\nlimits = [\"1/h\"]\n[[rules]]\ndomain = \"d\"\npolicy = \"p\"\ndescriptor = [{}]",
        all.join(", ")
    );
    let (_scene, mut client) = Scene::with_client(&config).await;
    let many = |count: usize| request(vec![descriptor(&vec![("k", "v"); count])]);
    assert_eq!(outcome(&mut client, many(64)).await, Ok(Code::Ok));
    assert_eq!(outcome(&mut client, many(64)).await, Ok(Code::OverLimit));
    // No rule has so many.
    assert_eq!(outcome(&mut client, many(65)).await, Ok(Code::Ok));
    assert_eq!(outcome(&mut client, many(1_000)).await, Ok(Code::Ok));
}

/// Whatever a client of the proxy sends is a value, and limited as a whole.
#[tokio::test]
async fn values_are_bytes() {
    let (_scene, mut client) = Scene::with_client(&per_user("\"1/h\"")).await;
    let long = |end: &str| [&"x".repeat(100_000), end].concat().into_bytes();
    let values = [
        b"".to_vec(),
        vec![b'x'; 1_024],
        vec![b'x'; 1_025],
        long(""),
        long("y"),
        long("z"),
        b"\xff".to_vec(),
        b"\xfe".to_vec(),
        "\u{fffd}".as_bytes().to_vec(),
        b"a\0b".to_vec(),
        b"\xc3\x28 half a letter".to_vec(),
    ];
    for value in values {
        let name = String::from_utf8_lossy(&value[..value.len().min(20)]).into_owned();
        let value = || request(vec![user(&value)]);
        assert_eq!(outcome(&mut client, value()).await, Ok(Code::Ok), "{name}");
        assert_eq!(outcome(&mut client, value()).await, Ok(Code::OverLimit), "{name}");
    }
    let key = request(vec![descriptor(&[("a", "b"), (&"x".repeat(1_025), "v")])]);
    assert_eq!(outcome(&mut client, key).await, Ok(Code::Ok));
    let domain = RateLimitRequest { domain: "x".repeat(1_025), ..request(vec![user("a")]) };
    assert_eq!(outcome(&mut client, domain).await, Ok(Code::Ok));
}

#[tokio::test]
async fn what_is_no_address_is_a_key_as_it_stands() {
    let config = "[policies.p]\nkey = [\"client_ip\"]\nlimits = [\"1/h\"]\n\
                  [[rules]]\ndomain = \"d\"\npolicy = \"p\"\ndescriptor = [{ key = \"client_ip\" }]\n";
    let (_scene, mut client) = Scene::with_client(config).await;
    for address in [&b"192.0.2.1"[..], b"nonsense", b"300.1.2.3", b"\xff", b""] {
        let value = || request(vec![descriptor(&[("client_ip", address)])]);
        assert_eq!(outcome(&mut client, value()).await, Ok(Code::Ok), "{address:?}");
        assert_eq!(outcome(&mut client, value()).await, Ok(Code::OverLimit), "{address:?}");
    }
    let spelled = request(vec![descriptor(&[("client_ip", "192.0.2.1:5555")])]);
    assert_eq!(outcome(&mut client, spelled).await, Ok(Code::OverLimit));
}

#[tokio::test]
async fn messages() {
    let (scene, mut client) = Scene::with_client(&per_user("\"1/h\"")).await;
    let wide: RateLimitDescriptor = descriptor(&[("other", &*"x".repeat(1_000)); 64]);
    let long = |count: usize| request(vec![wide.clone(); count]);
    let response = ask(&mut client, long(16)).await.unwrap();
    assert_eq!((response.overall_code(), response.statuses.len()), (Code::Ok, 16));
    let response = ask(&mut client, long(17)).await.unwrap();
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(undecided(&scene), 1);
    assert_eq!(outcome(&mut client, request(vec![user("a")])).await, Ok(Code::Ok));
}
