//! Bytes to pages and back. Pure.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use sha2::{Digest as _, Sha256};
use terraform_driver::hex::hex;

/// Bytes in one page. A Secret holds 1 MiB; the rest is for whoever adds annotations.
pub(super) const LARGEST_PAGE: usize = 900 * 1024;

/// Something to be kept, compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    page: usize,
    /// Over the compressed bytes.
    pub(super) sha256: String,
    /// Bytes before they were compressed.
    pub(super) raw: u64,
}

impl Packed {
    /// To be kept in pages of at most `page` bytes.
    pub(super) fn of(raw: &[u8], page: usize) -> Self {
        let bytes = gzip(raw);
        let sha256 = hex(&Sha256::digest(&bytes));
        Self { bytes, page, sha256, raw: raw.len() as u64 }
    }

    /// At least one, so that there is always something to write.
    pub(super) fn pages(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bytes.chunks(self.page)
    }

    pub(super) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// The bytes that were packed; none if these are not all of them, or not them.
pub(super) fn unpack(bytes: &[u8], sha256: &str, raw: u64) -> Option<Vec<u8>> {
    if hex(&Sha256::digest(bytes)) != sha256 {
        return None;
    }
    let out = gunzip(bytes, raw)?;
    (out.len() as u64 == raw).then_some(out)
}

fn gzip(raw: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    let _always_ok = out.write_all(raw);
    out.finish().unwrap_or_default()
}

/// Decompresses at most this much: what claims to be more is not ours.
pub(super) fn gunzip(bytes: &[u8], most: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut reader = GzDecoder::new(bytes).take(most.saturating_add(1));
    reader.read_to_end(&mut out).ok()?;
    (out.len() as u64 <= most).then_some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_packs_to_one_page() {
        let packed = Packed::of(b"", LARGEST_PAGE);
        assert_eq!(packed.pages().len(), 1);
        assert_eq!(unpack(&packed.bytes, &packed.sha256, 0), Some(Vec::new()));
    }

    #[test]
    fn more_than_was_promised_is_refused_before_it_is_in_memory() {
        let bomb = Packed::of(&vec![0; 10_000_000], LARGEST_PAGE);
        assert!(bomb.size() < 100_000);
        assert_eq!(unpack(&bomb.bytes, &bomb.sha256, 1000), None);
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back_and_any_flipped_bit_is_seen(raw: Vec<u8>, at: prop::sample::Index, bit in 0_u8..8) {
            let packed = Packed::of(&raw, LARGEST_PAGE);
            prop_assert_eq!(unpack(&packed.bytes, &packed.sha256, packed.raw), Some(raw));
            let mut broken = packed.bytes.clone();
            let at = at.index(broken.len());
            broken[at] ^= 1 << bit;
            prop_assert_eq!(unpack(&broken, &packed.sha256, packed.raw), None);
        }
    }
}
