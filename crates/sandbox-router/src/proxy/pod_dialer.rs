//! Connections to pods.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::settings::ProxySettings;

/// Connect timeout for peer routers: a request for a local process waits two seconds in total.
const PEER_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens connections to pods.
#[derive(Debug, Clone, Copy)]
pub(super) struct PodDialer {
    connect_timeout: Duration,
    loopback_pods: bool,
}

impl PodDialer {
    pub(super) fn from_settings(settings: &ProxySettings) -> Self {
        Self { connect_timeout: settings.limits.connect_timeout, loopback_pods: settings.loopback_pods }
    }

    /// For peer routers, which must accept quickly.
    pub(super) fn for_peer_router(settings: &ProxySettings) -> Self {
        let Self { connect_timeout: within, loopback_pods } = Self::from_settings(settings);
        Self { connect_timeout: within.min(PEER_CONNECT_TIMEOUT), loopback_pods }
    }

    /// Opens a connection to a pod.
    pub(super) async fn connect(self, to: SocketAddr) -> io::Result<TcpStream> {
        let to = if self.loopback_pods { to_loopback(to) } else { to };
        let stream = tokio::time::timeout(self.connect_timeout, TcpStream::connect(to))
            .await
            .map_err(io::Error::other)??;
        set_socket_options(&stream)?;
        Ok(stream)
    }
}

/// Loopback address of a simulated pod. Endpoints cannot have loopback addresses, so 10.1.2.3 maps to 127.1.2.3.
fn to_loopback(to: SocketAddr) -> SocketAddr {
    match to.ip() {
        IpAddr::V4(ip) if ip.octets()[0] == 10 => {
            let [_, a, b, c] = ip.octets();
            SocketAddr::new(Ipv4Addr::new(127, a, b, c).into(), to.port())
        }
        _ => to,
    }
}

/// Sets `TCP_NODELAY`, and TCP keepalive after 30 seconds to detect vanished peers.
pub(super) fn set_socket_options(stream: &TcpStream) -> io::Result<()> {
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
        let at = |text: &str| to_loopback(text.parse().unwrap()).to_string();
        assert_eq!(at("10.1.2.3:8080"), "127.1.2.3:8080");
        assert_eq!(at("172.16.2.3:8080"), "172.16.2.3:8080");
        assert_eq!(at("[fd00::1]:8080"), "[fd00::1]:8080");
    }
}
