//! Hexadecimal encoding.

/// Lower-case hexadecimal.
pub use ::hex::encode as hex;
