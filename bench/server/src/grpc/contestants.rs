//! The contestants for Envoy's rate limit service.

use std::sync::Arc;

use bytes::Bytes;

use super::client::framed;
use super::wire::question;
use crate::contestant::Contestant;
use crate::install::Installed;
use crate::keys::drawn;
use crate::role::Peer;
use crate::waterclock::{NARROW_POLICY, WIDE_POLICY, serving};

pub const ECHO: &str = "tonic echo, the floor";
pub const WATERCLOCK: &str = "waterclock";
pub const LIMITADOR: &str = "limitador behind tonic";

pub struct Asks {
    /// Everything passes.
    pub wide: Arc<[Bytes]>,
    /// Passes twice.
    pub narrow: Option<Bytes>,
}

pub fn all(installed: &Installed) -> Vec<Contestant<Asks>> {
    let wide: Arc<[Bytes]> =
        drawn(1 << 13).iter().map(|key| framed(&question(WIDE_POLICY, key))).collect();
    let narrow = framed(&question(NARROW_POLICY, "twice"));
    let contestant = |name: &str, launch, narrow| Contestant {
        name: name.to_owned(),
        launch: Ok(launch),
        asks: Asks { wide: Arc::clone(&wide), narrow },
    };
    let ours = serving(installed.waterclock.clone(), "grpc");
    let limitador = Peer::LimitadorGrpc.launch(&installed.itself);
    vec![
        contestant(ECHO, Peer::Echo.launch(&installed.itself), None),
        contestant(WATERCLOCK, ours, Some(narrow.clone())),
        contestant(LIMITADOR, limitador, Some(narrow)),
    ]
}
