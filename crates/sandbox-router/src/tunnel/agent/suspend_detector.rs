//! Detects that the machine was suspended or changed its network. During suspend the wall clock advances and this
//! process does not; in another network the local address differs.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::{Duration, SystemTime},
};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::super::clock;

/// Check interval.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Longer than one check takes on a busy machine.
const JUMP_THRESHOLD: Duration = Duration::from_secs(4);
/// Documentation addresses; the route to them is the default route.
const PROBE_ADDRESSES: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)), 9),
];

/// Local source addresses for IPv4 and IPv6, where there is a route.
type LocalAddresses = [Option<IpAddr>; 2];

/// Counts resumes and network changes.
pub(super) struct SuspendDetector(watch::Sender<u64>);

impl SuspendDetector {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Checks forever.
    pub(super) async fn run(&self) {
        let mut known = local_addresses();
        loop {
            let before = (clock::now(), Instant::now());
            sleep(CHECK_INTERVAL).await;
            let now = local_addresses();
            if is_clock_jump(before, (clock::now(), Instant::now())) || is_network_change(known, now) {
                self.0.send_modify(|count| *count += 1);
            }
            known = now;
        }
    }

    /// Returns at the next resume or network change.
    pub(super) async fn wait_for_resume(&self) {
        let mut woken = self.0.subscribe();
        if woken.changed().await.is_err() {
            // The detector was dropped.
            std::future::pending::<()>().await;
        }
    }
}

/// Connecting a UDP socket makes the kernel choose a source address; nothing is sent.
fn local_addresses() -> LocalAddresses {
    PROBE_ADDRESSES.map(|afar| {
        let any: IpAddr =
            if afar.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(afar).ok()?;
        socket.local_addr().ok().map(|it| it.ip())
    })
}

/// Whether there is a new address: losing one opens no new path.
fn is_network_change(before: LocalAddresses, now: LocalAddresses) -> bool {
    before.iter().zip(now).any(|(before, now)| now.is_some() && *before != now)
}

/// Whether more time passed than a check takes, by either clock: one of them stands still during suspend, and the other
/// can be set.
fn is_clock_jump(before: (SystemTime, Instant), after: (SystemTime, Instant)) -> bool {
    let by_wall = match after.0.duration_since(before.0) {
        Ok(passed) => passed > JUMP_THRESHOLD,
        Err(backwards) => backwards.duration() > JUMP_THRESHOLD,
    };
    by_wall || after.1 - before.1 > JUMP_THRESHOLD
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
        assert_eq!(is_clock_jump(before, after), is);
    }

    #[rstest]
    #[case::nothing_happens(Some(1), Some(1), false)]
    #[case::another_network(Some(1), Some(2), true)]
    #[case::the_network_is_gone(Some(1), None, false)]
    #[case::the_network_is_back(None, Some(1), true)]
    #[case::there_is_none(None, None, false)]
    fn another_address_is(#[case] before: Option<u8>, #[case] now: Option<u8>, #[case] is: bool) {
        let address = |it: Option<u8>| [it.map(|it| IpAddr::from([192, 168, 0, it])), None];
        assert_eq!(is_network_change(address(before), address(now)), is);
    }

    #[test]
    fn a_clock_that_was_set_back_far_is_a_jump_too() {
        let now = Instant::now();
        let before = (SystemTime::UNIX_EPOCH + Duration::from_hours(2), now);
        assert!(is_clock_jump(before, (SystemTime::UNIX_EPOCH, now)));
    }
}
