//! Sizes in bytes, as people write them.

use std::{fmt, str::FromStr};

use thiserror::Error;

const UNITS: [(&str, u32); 3] = [("Gi", 30), ("Mi", 20), ("Ki", 10)];

/// A number of bytes: `32Mi`, `1Gi`, `4096`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// A number of mebibytes.
    pub const fn mebibytes(count: u64) -> Self {
        Self(count << 20)
    }
}

/// It is not a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("use a number of bytes with a unit, such as 512Ki, 32Mi or 1Gi")]
pub struct InvalidByteSize;

impl FromStr for ByteSize {
    type Err = InvalidByteSize;

    fn from_str(text: &str) -> Result<Self, InvalidByteSize> {
        let text = text.trim();
        let text = text.strip_suffix('B').unwrap_or(text);
        let (number, shift) = UNITS
            .iter()
            .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
            .unwrap_or((text, 0));
        let number: u64 = number.trim().parse().map_err(|_| InvalidByteSize)?;
        number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).map(Self).ok_or(InvalidByteSize)
    }
}

/// The largest unit that shows the number without a fraction.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |shift: &u32| self.0 > 0 && self.0.is_multiple_of(1 << shift);
        match UNITS.iter().find(|(_, shift)| whole(shift)) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes, shown) in [
            ("32Mi", 32 << 20, "32Mi"),
            ("1024MiB", 1 << 30, "1Gi"),
            ("1500", 1500, "1500"),
            ("2Ki", 2048, "2Ki"),
        ] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, shown));
        }
        for text in ["", "0", "-1", "1.5Mi", "10MB ", "99999999999Gi", "Mi"] {
            assert_eq!(text.parse::<ByteSize>(), Err(InvalidByteSize), "{text}");
        }
    }
}
