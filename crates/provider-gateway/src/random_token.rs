//! Random tokens for names and secrets that nobody may guess.

use std::io;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};

/// 128 bits as 22 characters that may be part of a file name.
pub(crate) fn name_token() -> io::Result<String> {
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes::<16>()?))
}

/// Bytes from the operating system's generator.
pub(crate) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("there are no random numbers"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_file_names() {
        let (one, other) = (name_token().unwrap(), name_token().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 22);
        assert!(one.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '-' | '_')), "{one}");
    }
}
