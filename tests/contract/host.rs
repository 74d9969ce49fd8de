//! Ports and addresses of this machine.

use std::net::{IpAddr, UdpSocket};

use crate::ports::free_port;

/// Free ports.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| free_port())
}

/// An address of this machine that is not the loopback: a Service cannot lead there.
pub(crate) fn host_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent. The documentation's own network says which way a packet would take.
    let way = socket.connect("198.51.100.1:9").and_then(|()| socket.local_addr());
    way.unwrap_or_else(|error| panic!("this machine has no address beside the loopback: {error}")).ip()
}
