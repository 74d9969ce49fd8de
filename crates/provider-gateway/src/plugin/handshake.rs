//! The go-plugin handshake: the first line that a provider prints.

use std::path::PathBuf;

use thiserror::Error;

/// Socket and protocol version of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// Protocol version, 5 or 6.
    pub protocol: u8,
    /// Its socket.
    pub socket: PathBuf,
}

/// A handshake that the gateway does not support.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// Not a handshake.
    #[error("it printed no handshake, so it is not a provider")]
    NoHandshake,
    /// Unknown version of the go-plugin core protocol.
    #[error("unsupported go-plugin core protocol {0}; only 1 is supported")]
    Core(String),
    /// Unknown provider protocol.
    #[error("unsupported provider protocol {0}; only 5 and 6 are supported")]
    Protocol(String),
    /// Not a unix socket.
    #[error("it listens on {0}; only unix sockets are supported")]
    Network(String),
    /// Not gRPC.
    #[error("unsupported transport {0}; only grpc is supported")]
    Transport(String),
    /// The provider requires TLS.
    #[error("it requires TLS, which shared providers do not support")]
    Tls,
}

impl Handshake {
    /// Parses `1|5|unix|/path|grpc|`.
    pub fn parse(line: &str) -> Result<Self, HandshakeError> {
        let fields: Vec<&str> = line.trim_end_matches(['\r', '\n']).split('|').collect();
        let [core, protocol, network, address, transport, rest @ ..] = fields.as_slice() else {
            return Err(HandshakeError::NoHandshake);
        };
        if *core != "1" {
            return Err(HandshakeError::Core((*core).chars().take(20).collect()));
        }
        let protocol = match *protocol {
            "5" => 5,
            "6" => 6,
            other => return Err(HandshakeError::Protocol(other.chars().take(20).collect())),
        };
        if *network != "unix" {
            return Err(HandshakeError::Network((*network).chars().take(20).collect()));
        }
        if *transport != "grpc" {
            return Err(HandshakeError::Transport((*transport).chars().take(20).collect()));
        }
        if rest.first().is_some_and(|certificate| !certificate.is_empty()) {
            return Err(HandshakeError::Tls);
        }
        Ok(Self { protocol, socket: PathBuf::from(*address) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_of_today_is_read() {
        let expected = Handshake { protocol: 5, socket: "/tmp/p/plugin1".into() };
        assert_eq!(Handshake::parse("1|5|unix|/tmp/p/plugin1|grpc|\n"), Ok(expected.clone()));
        assert_eq!(Handshake::parse("1|5|unix|/tmp/p/plugin1|grpc"), Ok(expected.clone()));
        assert_eq!(Handshake::parse("1|5|unix|/tmp/p/plugin1|grpc||true"), Ok(expected));
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        for (line, expected) in [
            ("This binary is a plugin.", HandshakeError::NoHandshake),
            ("2|5|unix|/p|grpc|", HandshakeError::Core("2".to_owned())),
            ("1|4|unix|/p|grpc|", HandshakeError::Protocol("4".to_owned())),
            ("1|5|tcp|127.0.0.1:1|grpc|", HandshakeError::Network("tcp".to_owned())),
            ("1|5|unix|/p|netrpc|", HandshakeError::Transport("netrpc".to_owned())),
            ("1|5|unix|/p|grpc|MIIC", HandshakeError::Tls),
        ] {
            assert_eq!(Handshake::parse(line), Err(expected), "{line}");
        }
    }
}
