//! The first line that a provider prints.

use std::path::PathBuf;

use thiserror::Error;

/// Where a provider listens, and what it speaks there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// 5 or 6.
    pub protocol: u8,
    /// Its socket.
    pub socket: PathBuf,
}

/// A first line that is not one this gateway can work with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// It is no handshake at all.
    #[error("it printed no handshake, so it is not a provider")]
    NoHandshake,
    /// Another generation of go-plugin.
    #[error("it speaks version {0} of go-plugin's core protocol, and only 1 is known")]
    Core(String),
    /// A protocol that nobody has decoded yet.
    #[error("it speaks provider protocol {0}, and only 5 and 6 are known")]
    Protocol(String),
    /// Not on a unix socket.
    #[error("it listens on {0}, and only unix sockets are private enough")]
    Network(String),
    /// Not gRPC.
    #[error("it speaks {0}, and only grpc is known")]
    Transport(String),
    /// It wants TLS, which nobody asked for.
    #[error("it insists on TLS, which a shared provider cannot have")]
    Tls,
}

impl Handshake {
    /// Reads `1|5|unix|/path|grpc|`.
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
