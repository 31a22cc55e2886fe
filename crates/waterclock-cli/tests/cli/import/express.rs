//! Options of express-rate-limit.

use fastrand::Rng;

use super::{Imported, failed};

const MS: u64 = 1_000;

/// express-rate-limit counts requests since the first one of a window.
#[test]
fn random_requests_are_decided_as_in_the_middleware() {
    let mut rng = Rng::with_seed(0x00e8_94e5);
    let (mut passed, mut refused) = (0, 0);
    for _ in 0..40 {
        let (limit, window) = (rng.u64(1..8), rng.u64(1..6_000));
        let word = rng.choice(["limit", "max"]).unwrap();
        let imported = Imported::new(
            "express-rate-limit",
            &format!(r#"{{"windowMs": {window}, "{word}": {limit}}}"#),
        );
        let (mut at, mut ends, mut hits) = (0, 0, 0);
        let (mut checks, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            at += rng.u64(0..1_000) * MS;
            if at >= ends {
                (ends, hits) = (at + window * MS, 0);
            }
            hits += 1;
            checks.push((at, 1));
            expected.push(hits <= limit);
        }
        let found = imported.admits("express", &checks);
        assert_eq!(found, expected, "{limit} in {window} ms: {checks:?}");
        passed += found.iter().filter(|is_allowed| **is_allowed).count();
        refused += found.iter().filter(|is_allowed| !**is_allowed).count();
    }
    assert!(passed > 500 && refused > 500, "{passed} passed, {refused} refused");
}

#[test]
fn defaults_are_those_of_the_middleware() {
    let imported = Imported::new("express-rate-limit", r#"{"identifier": "login"}"#);
    imported.has(&[
        "[policies.login] # limits",
        "limits = [{ algorithm = \"fixed-window\", limit = 5, per = \"1m\" }]",
        "headers = \"github\"",
    ]);
    imported.warns(&[]);
}

#[test]
fn header_styles() {
    const NEWER: &str = "has no counterpart: `headers = \"ietf\"` writes `RateLimit` and `RateLimit-Policy` as newer drafts do";
    const ONE: &str = "express: `legacyHeaders` beside `standardHeaders` is left out: a policy has one style; here it is `ietf`";
    for (options, style, warning) in [
        (r#""legacyHeaders": true"#, "github", None),
        (r#""legacyHeaders": false"#, "retry-after", None),
        (r#""headers": false"#, "retry-after", None),
        (r#""standardHeaders": "draft-8", "legacyHeaders": false"#, "ietf", None),
        (r#""standardHeaders": "draft-8""#, "ietf", Some(ONE.to_owned())),
        (
            r#""standardHeaders": true, "legacyHeaders": false"#,
            "ietf",
            Some(format!("express: `standardHeaders` \"draft-6\" {NEWER}")),
        ),
        (
            r#""standardHeaders": "draft-7", "legacyHeaders": false"#,
            "ietf",
            Some(format!("express: `standardHeaders` \"draft-7\" {NEWER}")),
        ),
    ] {
        let imported = Imported::new("express-rate-limit", &format!("{{{options}}}"));
        imported.has(&[&format!("headers = \"{style}\"")]);
        assert_eq!(imported.warnings.first(), warning.as_ref(), "{options}");
    }
}

#[test]
fn every_other_option_is_said() {
    let imported = Imported::new(
        "express-rate-limit",
        r#"{
            "api": { "windowMs": 1000, "limit": 3, "max": 4, "passOnStoreError": true, "skipFailedRequests": true, "statusCode": 420, "ipv6Subnet": 56, "validate": false },
            "web": { "windowMs": 1000, "limit": 3, "skipFailedRequests": true, "passOnStoreError": false, "store": {}, "colour": "blue", "identifier": "w" },
            "closed": { "limit": 0 }
        }"#,
    );
    imported.has(&["on_store_error = \"allow\"", "on_store_error = \"deny\""]);
    imported.warns(&[
        "api: `max` is left out: `limit` beside it is the newer name",
        "api, web: `skipFailedRequests` stays in your program: refund the cost after such a response",
        "api: `statusCode` stays in your program, which writes the response to a refusal",
        "api: `ipv6Subnet` stays in your program: pass the key with each check",
        "web: `store` is a setting of the server: `[store] url` says where state lives",
        "web: `colour` has no counterpart and is left out",
        "web: `identifier` is left out: header fields call a limit by the names of its policy and its own",
        "closed: `limit` 0 refuses everything; it is left out, because a limit is at least 1: refuse such requests before they are checked",
    ]);
    let run = failed("express-rate-limit", r#"{"windowMs": 0}"#);
    assert_eq!(run.stderr, "limits: limiter 1: `windowMs` must be more than 0; found 0\n");
    let run = failed("express-rate-limit", r#"{"standardHeaders": 5}"#);
    assert_eq!(
        run.stderr,
        "limits: limiter 1: `standardHeaders` must be true, false or the name of a draft; found 5\n"
    );
}
