//! A visitor, a proxy, Waterclock and an origin; and what must hold whatever the proxy is.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use tempfile::TempDir;
use waterclock_conformance::real::{await_that, free_port};

use crate::background::Background;
use crate::deployed::Ports;
use crate::origin::Origin;
use crate::server::Server;
use crate::visitor::{Answer, Visitor};

/// A proxy that asks Waterclock before it passes requests on.
pub(crate) struct Edge {
    // Before `folder`: a process ends before its folder is removed.
    _proxy: Background,
    _folder: TempDir,
    pub(crate) server: Server,
    pub(crate) origin: Origin,
    port: u16,
}

/// What a policy of `deploy/waterclock.toml` lets pass.
pub(crate) struct Budget {
    path: &'static str,
    at_once: u32,
    per_second: f64,
}

/// `per-client`: 20 at once, and 60 a minute.
pub(crate) const ANY_PAGE: Budget = Budget { path: "/", at_once: 20, per_second: 1.0 };

/// `login`: 5 in ten minutes.
pub(crate) const LOGIN: Budget = Budget { path: "/login", at_once: 5, per_second: 5.0 / 600.0 };

impl Edge {
    /// Starts everybody. `proxy` puts its configuration into a folder, and says how to run it there.
    #[track_caller]
    pub(crate) fn start(proxy: fn(&Path, &Ports) -> Command) -> Self {
        Self::start_with(Server::start(), proxy)
    }

    /// The same, with a Waterclock of another configuration.
    #[track_caller]
    pub(crate) fn start_with(server: Server, proxy: fn(&Path, &Ports) -> Command) -> Self {
        let origin = Origin::start();
        let folder = TempDir::with_prefix("waterclock-proxy-").expect("a folder can be made");
        let ports = Ports {
            proxy: free_port(),
            origin: origin.port(),
            http: server.http,
            grpc: server.grpc,
        };
        let mut command = proxy(folder.path(), &ports);
        let background = Background::start(&mut command, folder.path(), ports.proxy);
        let edge = Self { _proxy: background, _folder: folder, server, origin, port: ports.proxy };
        // Some listen before they know where requests go.
        edge.passes_in_the_end(Visitor::at(250));
        edge
    }

    #[track_caller]
    pub(crate) fn get(&self, visitor: Visitor, path: &str) -> Answer {
        visitor.get(self.port, path)
    }

    /// Uses up what a fresh visitor has: everything until then passes, exactly as much as the policy
    /// says, and none of the refusals reaches the origin. The first refusal.
    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "real proxies live in real time")]
    pub(crate) fn exhaust(&self, visitor: Visitor, budget: &Budget) -> Answer {
        let served_before = self.origin.served();
        let start = Instant::now();
        let mut passed = 0;
        loop {
            let answer = self.get(visitor, budget.path);
            if answer.status == 429 {
                assert!(passed >= budget.at_once, "{passed} passed, then {answer:?}");
                assert_eq!(self.origin.served() - served_before, passed);
                return answer;
            }
            assert_eq!((answer.status, answer.body.trim()), (200, "hello from the origin"));
            passed += 1;
            let returned = start.elapsed().as_secs_f64() * budget.per_second;
            let bound = f64::from(budget.at_once) + returned;
            assert!(f64::from(passed) <= bound, "{passed} passed where {bound} may");
        }
    }

    /// As much passes as the policies allow; the rest hears what its policy tells.
    pub(crate) fn refuses_what_is_too_much(self) {
        let refusal = self.exhaust(Visitor::at(2), &ANY_PAGE);
        assert_eq!(refusal.number("retry-after"), 1);
        assert_eq!(refusal.header("ratelimit-policy"), Some("\"per-client.burst\";q=20;w=20"));
        assert_eq!(refusal.header("ratelimit"), Some("\"per-client.burst\";r=0;t=1"));

        let refusal = self.exhaust(Visitor::at(2), &LOGIN);
        assert!((1..=1200).contains(&refusal.number("retry-after")));
        assert_eq!(
            refusal.header("ratelimit"),
            None,
            "the policy tells when to retry, and no more"
        );
        self.server.stop();
    }

    /// A refused client cannot change its key by its headers; other clients have their own.
    #[track_caller]
    pub(crate) fn knows_its_visitors(&self) {
        // 127.0.0.1 is the harshest case: Waterclock believes what comes from there.
        for visitor in [Visitor::at(1), Visitor::at(2)] {
            self.exhaust(visitor, &LOGIN);
            for forged in [
                ("X-Forwarded-For", "192.0.2.7"),
                ("X-Forwarded-For", "192.0.2.7, 127.0.0.1"),
                ("x-forwarded-for", "2001:db8::7"),
                ("Forwarded", "for=192.0.2.7"),
                ("Forwarded", "for=\"[2001:db8::7]:4711\""),
                ("X-Real-IP", "192.0.2.7"),
                ("True-Client-IP", "192.0.2.7"),
                ("X-Envoy-External-Address", "192.0.2.7"),
            ] {
                let answer = visitor.get_with(self.port, LOGIN.path, &[forged]);
                assert_eq!(answer.status, 429, "{forged:?} gets past the limit: {answer:?}");
            }
        }
        assert_eq!(self.get(Visitor::at(3), LOGIN.path).status, 200);
    }

    /// Without Waterclock no request passes, and none gets 429; with it, they pass again.
    #[track_caller]
    pub(crate) fn survives_a_crash(&mut self, status: u16) {
        let visitor = Visitor::at(2);
        assert_eq!(self.get(visitor, "/").status, 200);
        let served = self.origin.served();
        self.server.kill();
        assert_eq!(self.get(visitor, "/").status, status);
        assert_eq!(self.origin.served(), served, "the origin is reached without a decision");
        self.server.start_again();
        self.passes_in_the_end(visitor);
    }

    /// The same when Waterclock takes questions and does not answer.
    #[track_caller]
    pub(crate) fn survives_a_hang(&mut self, status: u16) {
        let visitor = Visitor::at(2);
        assert_eq!(self.get(visitor, "/").status, 200);
        let served = self.origin.served();
        self.server.pause();
        assert_eq!(self.get(visitor, "/").status, status);
        assert_eq!(self.origin.served(), served, "the origin is reached without a decision");
        self.server.resume();
        self.passes_in_the_end(visitor);
    }

    #[track_caller]
    fn passes_in_the_end(&self, visitor: Visitor) {
        await_that("a visitor passes", || self.get(visitor, "/").status == 200);
    }
}
