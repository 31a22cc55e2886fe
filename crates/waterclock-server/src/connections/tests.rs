//! Places and who gets them.

use super::*;

fn address(n: u32) -> SocketAddr {
    (std::net::Ipv4Addr::from_bits(n), 1).into()
}

fn is_told(place: &Place) -> Option<Reason> {
    *place.guest().closing.lock()
}

#[test]
fn the_oldest_stranger_of_a_face_makes_room() {
    // 24 places: 2 for strangers of each face, 18 for others, 3 of them kept for each face.
    let places = Arc::new(Connections::new(24, 100));
    let strangers: Vec<Place> =
        (0..3).map(|n| places.enter(Face::Resp, address(n), false)).collect();
    let told: Vec<_> = strangers.iter().map(is_told).collect();
    assert_eq!(told, [Some(Reason::Strangers), None, None]);
    let of_http = places.enter(Face::Http, address(9), false);
    assert_eq!(is_told(&of_http), None, "another face has places of its own");
    assert_eq!(places.open(), 4);
    drop((strangers, of_http));
    assert_eq!(places.open(), 0);
    assert!(places.taken.lock().origins.is_empty());
}

#[test]
fn the_silent_make_room_for_the_busy() {
    let connections = Arc::new(Connections::new(36, 3));
    let enter = |n| connections.enter(Face::Http, address(n), false);
    let strangers: Vec<Place> = (0..3).map(|_| enter(1)).collect();
    strangers[0].guest().touch();
    strangers[2].guest().touch();
    strangers[0].guest().touch();
    let told = || strangers.iter().map(is_told).collect::<Vec<_>>();
    let _of_address = enter(1);
    assert_eq!(told(), [None, Some(Reason::Address), None]);
    let _of_face = enter(2);
    assert_eq!(told(), [None, Some(Reason::Address), Some(Reason::Strangers)]);
}

#[test]
fn an_address_has_half_of_the_known_places() {
    // 18 places for known clients: 9 for one address.
    let connections = Arc::new(Connections::new(24, 100));
    let enter = |n, is_proxy| {
        let place = connections.enter(Face::Resp, address(n), is_proxy);
        place.guest().confirm();
        place
    };
    let of_one: Vec<Place> = (0..11).map(|_| enter(1, false)).collect();
    let known = |places: &[Place]| places.iter().filter(|p| p.guest().is_known()).count();
    assert_eq!(known(&of_one), 9);
    assert!(of_one.iter().all(|place| is_told(place).is_none()), "all are served");
    assert!(enter(2, false).guest().is_known());
    drop(of_one);
    assert!(connections.taken.lock().origins.is_empty());
    let proxies: Vec<Place> = (0..12).map(|_| enter(3, true)).collect();
    assert_eq!(known(&proxies), 12);
}

#[test]
fn an_address_makes_room_for_itself() {
    let places = Arc::new(Connections::new(1_000, 2));
    let mut of_one: Vec<Place> = [Face::Http, Face::Grpc, Face::Resp]
        .map(|face| places.enter(face, address(1), false))
        .into();
    let other = places.enter(Face::Http, address(2), false);
    let proxies: Vec<Place> = (0..5).map(|_| places.enter(Face::Http, address(3), true)).collect();
    assert!(proxies.iter().chain([&other]).all(|place| is_told(place).is_none()));
    let told: Vec<_> = of_one.iter().map(is_told).collect();
    assert_eq!(told, [Some(Reason::Address), None, None]);
    // Known clients do not count.
    of_one.iter().for_each(|place| place.guest().confirm());
    assert!(!of_one[0].guest().is_known(), "it is told to close already");
    of_one.extend((0..2).map(|_| places.enter(Face::Http, address(1), false)));
    assert_eq!(of_one[1..].iter().filter_map(is_told).count(), 0);
}

#[test]
fn a_face_keeps_its_places_from_the_others() {
    let places = Arc::new(Connections::new(24, 100));
    let known = |face, many: u32| -> Vec<Place> {
        let enter = |n| {
            let place = places.enter(face, address(n), false);
            place.guest().confirm();
            place
        };
        (0..many).map(enter).collect()
    };
    let is_known =
        |places: &[Place]| places.iter().filter(|place| place.guest().is_known()).count();
    let greedy = known(Face::Resp, 13);
    assert_eq!(is_known(&greedy), 12, "18 without the 3 of each other face");
    assert_eq!(is_told(&greedy[12]), None, "served all the same, as a stranger");
    assert_eq!(is_known(&known(Face::Http, 4)), 3);
    assert_eq!(is_known(&known(Face::Grpc, 4)), 3);
    drop(greedy);
    assert_eq!(is_known(&known(Face::Grpc, 13)), 12);
}
