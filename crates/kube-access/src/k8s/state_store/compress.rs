//! Compression of bytes into pages and back. Pure.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use sha2::{Digest as _, Sha256};
use terraform_driver::hex::hex;

/// Bytes per page. A Secret holds 1 MiB; the rest is headroom for metadata.
pub(super) const MAX_PAGE_BYTES: usize = 900 * 1024;

/// Compressed bytes, split into pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompressedPages {
    bytes: Vec<u8>,
    page_size: usize,
    /// Checksum of the compressed bytes.
    pub(super) sha256: String,
    /// Uncompressed size.
    pub(super) raw_size: u64,
}

impl CompressedPages {
    /// Compresses into pages of at most `page` bytes.
    pub(super) fn from_bytes(raw: &[u8], page_size: usize) -> Self {
        let bytes = gzip(raw);
        let sha256 = hex(Sha256::digest(&bytes));
        Self { bytes, page_size, sha256, raw_size: raw.len() as u64 }
    }

    /// The pages; at least one.
    pub(super) fn pages(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bytes.chunks(self.page_size)
    }

    pub(super) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Decompresses; `None` if checksum or size do not match.
pub(super) fn decompress(bytes: &[u8], sha256: &str, raw: u64) -> Option<Vec<u8>> {
    if hex(Sha256::digest(bytes)) != sha256 {
        return None;
    }
    let out = gunzip(bytes, raw)?;
    (out.len() as u64 == raw).then_some(out)
}

/// Compresses bytes.
pub(super) fn gzip(raw: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    let _always_ok = out.write_all(raw);
    out.finish().unwrap_or_default()
}

/// Decompresses at most `most` bytes; `None` if there are more.
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
        let packed = CompressedPages::from_bytes(b"", MAX_PAGE_BYTES);
        assert_eq!(packed.pages().len(), 1);
        assert_eq!(decompress(&packed.bytes, &packed.sha256, 0), Some(Vec::new()));
    }

    #[test]
    fn more_than_was_promised_is_refused_before_it_is_in_memory() {
        let bomb = CompressedPages::from_bytes(&vec![0; 10_000_000], MAX_PAGE_BYTES);
        assert!(bomb.size() < 100_000);
        assert_eq!(decompress(&bomb.bytes, &bomb.sha256, 1000), None);
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back_and_any_flipped_bit_is_seen(raw: Vec<u8>, at: prop::sample::Index, bit in 0_u8..8) {
            let packed = CompressedPages::from_bytes(&raw, MAX_PAGE_BYTES);
            prop_assert_eq!(decompress(&packed.bytes, &packed.sha256, packed.raw_size), Some(raw));
            let mut broken = packed.bytes.clone();
            let at = at.index(broken.len());
            broken[at] ^= 1 << bit;
            prop_assert_eq!(decompress(&broken, &packed.sha256, packed.raw_size), None);
        }
    }
}
