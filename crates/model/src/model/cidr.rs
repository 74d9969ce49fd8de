//! IPv4 networks.

use std::{fmt, net::Ipv4Addr};

use serde::{Serialize, Serializer};

use super::newtypes::{MalformedText, Parse};

/// An IPv4 network: an address without host bits, and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    address: Ipv4Addr,
    prefix: u8,
}

impl Cidr {
    /// A network; `None` if the address has host bits or the prefix is longer than 32.
    pub fn new(address: Ipv4Addr, prefix: u8) -> Option<Self> {
        let network = Self { address, prefix };
        (prefix <= 32 && u32::from(address) & !network.mask() == 0).then_some(network)
    }

    /// The whole internet.
    pub const ANY: Self = Self { address: Ipv4Addr::UNSPECIFIED, prefix: 0 };

    /// Length of the prefix.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether every address of `other` is in this network.
    pub fn contains(&self, other: &Self) -> bool {
        other.prefix >= self.prefix && u32::from(other.address) & self.mask() == u32::from(self.address)
    }

    /// Whether the two have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// Whether this is the whole internet.
    pub fn is_any(&self) -> bool {
        self.prefix == 0
    }

    /// Whether the network is in a private range (RFC 1918).
    pub fn is_private(&self) -> bool {
        [([10, 0, 0, 0], 8), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16)]
            .into_iter()
            .filter_map(|(octets, prefix)| Self::new(Ipv4Addr::from(octets), prefix))
            .any(|range| range.contains(self))
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0)
    }
}

impl Parse for Cidr {
    fn parse(text: &str) -> Result<Self, MalformedText> {
        let malformed = |expected, remedy| MalformedText { text: text.to_owned(), expected, remedy };
        let (address, prefix) = parse_parts(text).ok_or_else(|| {
            malformed("an IPv4 network", "use an address and a prefix length such as 10.0.0.0/16")
        })?;
        Self::new(address, prefix).ok_or_else(|| {
            malformed(
                "a network: the address has bits beyond the prefix",
                "set those bits to zero, as in 10.0.0.0/16",
            )
        })
    }
}

fn parse_parts(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let plain = prefix.bytes().all(|it| it.is_ascii_digit()) && (prefix == "0" || !prefix.starts_with('0'));
    let prefix: u8 = prefix.parse().ok().filter(|length| plain && *length <= 32)?;
    Some((address.parse().ok()?, prefix))
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Serialize for Cidr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        Cidr::parse(text).unwrap()
    }

    #[test]
    fn a_network_is_read_and_written_alike() {
        for text in ["0.0.0.0/0", "10.0.0.0/16", "203.0.113.7/32", "128.0.0.0/1"] {
            assert_eq!(cidr(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/016",
            "10.0.0.0/+16",
            "10.00.0.0/16",
            "10.0.0/16",
            "::/0",
        ] {
            assert_eq!(Cidr::parse(text).unwrap_err().expected, "an IPv4 network", "{text:?}");
        }
        assert!(Cidr::parse("10.0.0.1/16").unwrap_err().to_string().contains("bits beyond the prefix"));
    }

    #[test]
    fn networks_overlap_exactly_if_one_contains_the_other() {
        assert!(cidr("10.0.0.0/16").contains(&cidr("10.0.255.0/24")));
        assert!(!cidr("10.0.255.0/24").contains(&cidr("10.0.0.0/16")));
        assert!(cidr("10.0.255.0/24").overlaps(&cidr("10.0.0.0/16")));
        assert!(!cidr("10.0.0.0/16").overlaps(&cidr("10.1.0.0/16")));
        assert!(cidr("0.0.0.0/0").contains(&cidr("255.255.255.255/32")));
    }

    #[test]
    fn private_ranges_are_known_to_the_bit() {
        for (text, private) in [
            ("10.255.0.0/16", true),
            ("172.16.0.0/12", true),
            ("172.32.0.0/16", false),
            ("192.168.4.0/24", true),
            ("192.160.0.0/12", false),
            ("0.0.0.0/0", false),
        ] {
            assert_eq!(cidr(text).is_private(), private, "{text}");
        }
    }
}
