//! More of everything than there is room for.

use waterclock_server::{Room, Timing};

use super::{Scene, impatient};

/// Memory that this process uses, in bytes.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

/// Stalled bodies do not keep others from being served, though there are more of them than requests
/// are worked on at once; and what they make the server keep is bounded.
#[tokio::test]
async fn many_bodies_that_stop() {
    let room = Room { requests: 8, ..Room::default() };
    let scene = Scene::new(Timing { room, ..impatient() }).await;
    let before = memory();
    let mut most = 0;
    for _ in 0..3 {
        let mut clients = Vec::new();
        for _ in 0..80 {
            let mut client = scene.client().await;
            client
                .write(b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 65000\r\n\r\n")
                .await;
            client.write(&[b'x'; 60_000]).await;
            clients.push(client);
        }
        most = most.max(memory().saturating_sub(before));
        for client in &mut clients {
            assert_eq!(client.read().await.map(|answer| answer.status), Some(408));
        }
    }
    // 80 times 64 KiB, with all that is around it, and with what other tests do meanwhile.
    assert!(most < 200 << 20, "{most} bytes more");
    scene.ends_well().await;
}
