//! The same without a proxy: the kernel drops packets, in a network namespace with nothing but a loopback device.
//! TCP sends again what was lost, so calls may arrive long after their callers have given up.

use std::env;
use std::net::Ipv4Addr;
use std::process::Command;

use waterclock_conformance::real::RedisServer;
use waterclock_redis::Serving;

use super::{LOCAL_FOR, NODES, Scene, Wire, is_local, of_some, of_some_for_a_while};

/// Set inside the namespace.
const INSIDE: &str = "WATERCLOCK_TEST_NAMESPACE";
/// Where filters can be added.
const SET_UP: &str = "ip link set lo up && tc qdisc add dev lo clsact";

/// An address of Redis whose packets may be dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address(Ipv4Addr);

impl Address {
    pub(super) fn url(self, port: u16) -> String {
        format!("redis://{}:{port}", self.0)
    }

    pub(super) fn cut_off(self) {
        // If the packet's destination or source is this address it is dropped (2); if not, other filters decide (-1).
        let (this, network) = (self.0.to_bits(), 0xFFF0_0000_u32);
        let (destination, source) = (network + 16, network + 12);
        let program = format!(
            "6,32 0 0 {destination},21 2 0 {this},32 0 0 {source},21 0 1 {this},6 0 0 2,6 0 0 {}",
            u32::MAX
        );
        self.filter("add", &["bpf", "da", "bytecode", &program]);
    }

    pub(super) fn rejoin(self) {
        self.filter("del", &[]);
    }

    /// Adds or deletes the filter of this address.
    fn filter(self, verb: &str, what: &[&str]) {
        let preference = u16::from(self.0.octets()[3]).to_string();
        let mut tc = Command::new("tc");
        tc.args(["filter", verb, "dev", "lo", "egress", "pref", &preference, "protocol", "ip"]);
        assert!(tc.args(what).status().unwrap().success(), "{tc:?}");
    }
}

/// Four nodes, each with an address of its own for the same Redis.
async fn scene(serving: Serving) -> Scene {
    let server = RedisServer::start_with(&[("bind", "0.0.0.0"), ("protected-mode", "no")]);
    let address = |n| Wire::Dropped(Address(Ipv4Addr::new(127, 0, 0, 10 + n)));
    let wires = (1..=u8::try_from(NODES).unwrap()).map(address).collect();
    Scene::start_on(server, wires, |builder| builder.nodes(NODES).serving(serving)).await
}

async fn inside() {
    let always = scene(Serving::default()).await;
    always.lose_some(3).await;
    let seen = always.stop().await;
    assert!(seen.calls().any(|call| is_local(&call) && call.granted() > 0));
    seen.judge(of_some).unwrap();
    let for_a_while = scene(Serving::default().with_local_for(Some(LOCAL_FOR))).await;
    for _ in 0..2 {
        for_a_while.lose_some(3).await;
    }
    for_a_while.stop().await.judge(of_some_for_a_while).unwrap();
}

/// Runs this test again, in a namespace.
fn enter() {
    let script = format!("{SET_UP} && exec \"$0\" \"$@\"");
    let mut again = Command::new("unshare");
    again.args(["--net", "sh", "-c", &script]).arg(env::current_exe().unwrap());
    again.args(["--exact", "partitions::namespace::dropped_packets", "--nocapture"]);
    assert!(again.env(INSIDE, "1").status().unwrap().success());
}

/// Whether this user and this kernel can.
fn is_possible() -> bool {
    let script = format!("{SET_UP} && tc filter add dev lo egress bpf da bytecode '1,6 0 0 0'");
    Command::new("unshare").args(["--net", "sh", "-c", &script]).status().is_ok_and(|s| s.success())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_packets() {
    if env::var_os(INSIDE).is_some() {
        inside().await;
    } else if is_possible() {
        enter();
    } else {
        println!("skipped: network namespaces with packet filters need root and cls_bpf");
    }
}
