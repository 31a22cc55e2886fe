//! Commands of the Redis protocol, to the reply: any bytes, whole and in pieces.
//!
//! Each connection gets the same replies, apart from numbers: times go on.

use libfuzzer_sys::Corpus;
use waterclock_server::observe::Face;

use crate::server::{Scene, without_numbers};

thread_local! {
    static SCENE: Scene = Scene::new(Face::Resp);
}

pub fn run(data: &[u8]) -> Corpus {
    let Some((cut, bytes)) = data.split_first() else { return Corpus::Reject };
    SCENE.with(|scene| {
        let replies = |piece: usize| {
            let replies = scene.runtime.block_on(scene.faces.resp(bytes.chunks(piece)));
            scene.forget();
            replies
        };
        let whole = replies(bytes.len().max(1));
        assert!(whole.is_empty() || whole.ends_with(b"\r\n"));
        if *cut > 0 && bytes.len() < 256 {
            let cut = replies(bytes.len() / (usize::from(*cut) % 3 + 2) + 1);
            let shown =
                |replies: &[u8]| String::from_utf8_lossy(&without_numbers(replies, 1)).into_owned();
            assert_eq!(shown(&whole), shown(&cut));
        }
    });
    Corpus::Keep
}
