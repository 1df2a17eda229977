//! The list of clients, and which of them make room.

use super::*;

fn arrival(address: &str, is_stranger: bool) -> Arrival {
    Arrival {
        address: address.into(),
        local_address: "1.2.3.4:6379".into(),
        now_ms: 1000,
        is_stranger,
    }
}

#[test]
fn clients_are_listed_while_they_are_connected() {
    let clients = Arc::new(Clients::default());
    let first = clients.admit(arrival("1.2.3.4:5", false), 10).unwrap();
    let second = clients.admit(arrival("b", false), 10).unwrap();
    first.update(|said| said.name = Bytes::from_static(b"worker"));
    first.touch(3000, "get");
    let line = first.line(4500);
    assert!(
        line.starts_with("id=1 addr=1.2.3.4:5 laddr=1.2.3.4:6379 fd=-1 name=worker age=3 idle=1 "),
        "{line}"
    );
    assert!(line.contains(" cmd=get "), "{line}");
    assert_eq!(clients.len(), 2);
    drop(first);
    assert_eq!(clients.list()[0].id, second.id);
}

#[test]
fn clients_that_have_authenticated_are_never_closed_for_others() {
    let clients = Arc::new(Clients::default());
    let known: Vec<_> =
        (0..3).map(|_| clients.admit(arrival("known", false), 3).unwrap()).collect();
    assert!(clients.admit(arrival("stranger", true), 3).is_none());
    assert!(clients.admit(arrival("known", false), 3).is_none());
    assert!(known.iter().all(|client| !client.is_killed()));
}

#[test]
fn at_the_limit_the_oldest_stranger_makes_room() {
    let clients = Arc::new(Clients::default());
    let known = clients.admit(arrival("known", true), 4).unwrap();
    known.set_known(true);
    let mut strangers: Vec<_> =
        (0..3).map(|_| clients.admit(arrival("stranger", true), 4).unwrap()).collect();
    let new = clients.admit(arrival("new", true), 4).unwrap();
    let killed: Vec<_> = strangers.iter().map(|client| client.is_killed()).collect();
    assert_eq!(killed, [true, false, false]);
    new.set_known(true);
    assert_eq!(clients.closed_strangers(), 1);
    // One that was told to end counts no more, whether it has ended or not.
    drop(strangers.remove(0));
    let newer = clients.admit(arrival("newer", true), 4).unwrap();
    assert!(strangers[0].is_killed() && !strangers[1].is_killed());
    assert!(!known.is_killed() && !new.is_killed() && !newer.is_killed());
}

#[test]
fn connections_above_the_limit_are_bounded_while_they_end() {
    let clients = Arc::new(Clients::default());
    let strangers: Vec<_> =
        (0..1000).filter_map(|_| clients.admit(arrival("stranger", true), 100)).collect();
    assert_eq!(strangers.len(), 100 + LEAVING_MAX);
    assert_eq!(clients.len(), strangers.len());
    drop(strangers);
    assert!(clients.is_empty() && clients.connected.lock().strangers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn strangers_have_a_deadline_and_a_share() {
    let clients = Arc::new(Clients::default());
    let admit = |name: &str, is_stranger| clients.admit(arrival(name, is_stranger), 8).unwrap();
    let known = admit("known", false);
    let strangers: Vec<_> = (0..4).map(|_| admit("stranger", true)).collect();
    let killed = |strangers: &[Registration]| -> Vec<bool> {
        strangers.iter().map(|client| client.is_killed()).collect()
    };
    clients.close_strangers(Instant::now(), 8);
    assert_eq!(killed(&strangers), [false; 4], "they are about to authenticate");
    tokio::time::advance(GRACE).await;
    clients.close_strangers(Instant::now(), 8);
    assert_eq!(killed(&strangers), [true, true, false, false]);
    tokio::time::advance(AUTH_PATIENCE - GRACE).await;
    strangers[3].set_known(true);
    clients.close_strangers(Instant::now(), 8);
    assert_eq!(killed(&strangers), [true, true, true, false]);
    // Whoever gives up its name waits anew.
    strangers[3].set_known(false);
    clients.close_strangers(Instant::now(), 8);
    assert!(!strangers[3].is_killed());
    tokio::time::advance(AUTH_PATIENCE).await;
    clients.close_strangers(Instant::now(), 8);
    assert!(strangers[3].is_killed() && !known.is_killed());
    assert_eq!(clients.closed_strangers(), 4);
}
