//! Hexadecimal encoding of digests.

/// Lower-case hexadecimal.
pub use ::hex::encode as hex;
