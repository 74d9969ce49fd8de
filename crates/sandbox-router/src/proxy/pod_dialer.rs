//! How connections to pods are opened.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::settings::Settings;

/// How long a connection to another router may take: whoever asks for a local process waits two seconds in all.
const PEER: Duration = Duration::from_secs(1);

/// How connections to pods are opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dial {
    within: Duration,
    loopback_pods: bool,
}

impl Dial {
    pub(super) fn of(settings: &Settings) -> Self {
        Self { within: settings.limits.connect, loopback_pods: settings.loopback_pods }
    }

    /// The same for other routers, which are near and idle enough to take one at once.
    pub(super) fn peer(settings: &Settings) -> Self {
        let Self { within, loopback_pods } = Self::of(settings);
        Self { within: within.min(PEER), loopback_pods }
    }

    /// Opens a connection to a pod.
    pub(super) async fn pod(self, to: SocketAddr) -> io::Result<TcpStream> {
        let to = if self.loopback_pods { on_loopback(to) } else { to };
        let stream =
            tokio::time::timeout(self.within, TcpStream::connect(to)).await.map_err(io::Error::other)??;
        prepare(&stream)?;
        Ok(stream)
    }
}

/// Where the process of a pod is that is played on this machine: no endpoint may have an address of the loopback
/// interface, so 10.1.2.3 stands for 127.1.2.3.
fn on_loopback(to: SocketAddr) -> SocketAddr {
    match to.ip() {
        IpAddr::V4(ip) if ip.octets()[0] == 10 => {
            let [_, a, b, c] = ip.octets();
            SocketAddr::new(Ipv4Addr::new(127, a, b, c).into(), to.port())
        }
        _ => to,
    }
}

/// No waiting for more bytes before sending, and a look after half a minute whether the other side still lives: a machine
/// that vanished says nothing.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let probes =
        TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
    SockRef::from(stream).set_tcp_keepalive(&probes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_played_pods_are_put_on_loopback() {
        let at = |text: &str| on_loopback(text.parse().unwrap()).to_string();
        assert_eq!(at("10.1.2.3:8080"), "127.1.2.3:8080");
        assert_eq!(at("172.16.2.3:8080"), "172.16.2.3:8080");
        assert_eq!(at("[fd00::1]:8080"), "[fd00::1]:8080");
    }
}
