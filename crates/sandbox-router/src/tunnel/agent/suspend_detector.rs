//! Notices that the machine slept, or that it is in another network. While it sleeps, the wall clock goes on and this
//! process does not; in another network it has another address.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::{Duration, SystemTime},
};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::super::clock;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(500);
/// More than a busy machine may take for one look.
const JUMP: Duration = Duration::from_secs(4);
/// Addresses of nobody, to which the way is that to everybody.
const AFAR: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)), 9),
];

/// The addresses by which this machine would reach the world, as far as it would.
type Addresses = [Option<IpAddr>; 2];

/// Counts how often the machine woke, or came into another network.
pub(super) struct Awake(watch::Sender<u64>);

impl Awake {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Looks, without end.
    pub(super) async fn watch(&self) {
        let mut known = addresses();
        loop {
            let before = (clock::now(), Instant::now());
            sleep(LOOK).await;
            let now = addresses();
            if is_jump(before, (clock::now(), Instant::now())) || is_elsewhere(known, now) {
                self.0.send_modify(|count| *count += 1);
            }
            known = now;
        }
    }

    /// Returns when the machine wakes, or is elsewhere, the next time.
    pub(super) async fn woke(&self) {
        let mut woken = self.0.subscribe();
        if woken.changed().await.is_err() {
            // Nobody looks any more.
            std::future::pending::<()>().await;
        }
    }
}

/// The kernel chooses an address for a socket that is only connected; nothing is sent.
fn addresses() -> Addresses {
    AFAR.map(|afar| {
        let any: IpAddr =
            if afar.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(afar).ok()?;
        socket.local_addr().ok().map(|it| it.ip())
    })
}

/// Whether there is an address that was not there before: one that is gone is no way to anybody.
fn is_elsewhere(before: Addresses, now: Addresses) -> bool {
    before.iter().zip(now).any(|(before, now)| now.is_some() && *before != now)
}

/// Whether more time passed than looking takes: by either clock, because one of them stands still during sleep and the
/// other can be set.
fn is_jump(before: (SystemTime, Instant), after: (SystemTime, Instant)) -> bool {
    let by_wall = match after.0.duration_since(before.0) {
        Ok(passed) => passed > JUMP,
        Err(backwards) => backwards.duration() > JUMP,
    };
    by_wall || after.1 - before.1 > JUMP
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_look(500, 500, false)]
    #[case::a_busy_machine(3000, 3000, false)]
    #[case::a_laptop_that_slept(3_600_000, 500, true)]
    #[case::a_process_that_was_stopped(60_000, 60_000, true)]
    fn a_jump_of_the_clock_is(#[case] wall: u64, #[case] steady: u64, #[case] is: bool) {
        let before = (SystemTime::UNIX_EPOCH, Instant::now());
        let after = (before.0 + Duration::from_millis(wall), before.1 + Duration::from_millis(steady));
        assert_eq!(is_jump(before, after), is);
    }

    #[rstest]
    #[case::nothing_happens(Some(1), Some(1), false)]
    #[case::another_network(Some(1), Some(2), true)]
    #[case::the_network_is_gone(Some(1), None, false)]
    #[case::the_network_is_back(None, Some(1), true)]
    #[case::there_is_none(None, None, false)]
    fn another_address_is(#[case] before: Option<u8>, #[case] now: Option<u8>, #[case] is: bool) {
        let address = |it: Option<u8>| [it.map(|it| IpAddr::from([192, 168, 0, it])), None];
        assert_eq!(is_elsewhere(address(before), address(now)), is);
    }

    #[test]
    fn a_clock_that_was_set_back_far_is_a_jump_too() {
        let now = Instant::now();
        let before = (SystemTime::UNIX_EPOCH + Duration::from_hours(2), now);
        assert!(is_jump(before, (SystemTime::UNIX_EPOCH, now)));
    }
}
