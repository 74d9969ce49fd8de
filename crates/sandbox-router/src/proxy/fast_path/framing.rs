//! Message framing: where a response body ends. Bytes are relayed unchanged, except for bodies delimited by connection
//! close: these are re-encoded as chunks, so that callers can detect truncation.

/// Framing of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Framing {
    /// Remaining bytes of a `Content-Length` body.
    Length(u64),
    /// Chunked transfer coding.
    Chunks(ChunkDecoder),
    /// Delimited by connection close.
    Close,
}

/// Decoder state of a chunked body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChunkDecoder {
    state: ChunkState,
    /// Chunk size while it is parsed, then the remaining bytes of the chunk.
    remaining: u64,
    /// Bytes of the current line, or of all trailers.
    line_bytes: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ChunkState {
    #[default]
    Size,
    /// Optional whitespace after the size.
    SizeBlank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    Trailer,
    TrailerLf,
    LastLf,
    Done,
}

/// Limit for chunk extensions and for all trailers together.
const MAX_LINE_BYTES: usize = 8 * 1024;

/// The chunked encoding is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid chunked encoding in the response")]
pub(super) struct InvalidChunk;

/// The pod closed the connection before the end of the body.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pod closed the connection in the middle of its response")]
pub(super) struct TruncatedBody;

impl Framing {
    /// Returns how many of these bytes belong to the body.
    pub(super) fn consume(&mut self, bytes: &[u8]) -> Result<usize, InvalidChunk> {
        match self {
            Self::Length(left) => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                Ok(taken)
            }
            Self::Chunks(chunks) => chunks.consume(bytes),
            Self::Close => Ok(bytes.len()),
        }
    }

    /// Encodes body bytes for the caller.
    pub(super) fn encode(&self, bytes: &[u8], out: &mut Vec<u8>) {
        if *self != Self::Close {
            out.extend_from_slice(bytes);
        } else if !bytes.is_empty() {
            out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Handles the end of the pod's connection; writes the last chunk if needed.
    pub(super) fn finish(&self, out: &mut Vec<u8>) -> Result<(), TruncatedBody> {
        if *self != Self::Close {
            return Err(TruncatedBody);
        }
        out.extend_from_slice(b"0\r\n\r\n");
        Ok(())
    }

    /// Whether the body is complete.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunks(chunks) => chunks.state == ChunkState::Done,
            Self::Close => false,
        }
    }
}

impl ChunkDecoder {
    fn consume(&mut self, bytes: &[u8]) -> Result<usize, InvalidChunk> {
        let mut taken = 0;
        while taken < bytes.len() && self.state != ChunkState::Done {
            if self.state == ChunkState::Data {
                let all = (bytes.len() - taken).min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
                self.remaining -= all as u64;
                taken += all;
                if self.remaining == 0 {
                    self.state = ChunkState::DataCr;
                }
            } else {
                self.state = self.step(bytes[taken])?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// The next state after a byte that is not data.
    fn step(&mut self, byte: u8) -> Result<ChunkState, InvalidChunk> {
        self.line_bytes += 1;
        if self.line_bytes > MAX_LINE_BYTES {
            return Err(InvalidChunk);
        }
        // Lines must end in CRLF: anything that parsers interpret differently is not relayed.
        let is_text = byte == b'\t' || !byte.is_ascii_control();
        match (self.state, byte) {
            (ChunkState::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.push_size_digit(byte),
            (ChunkState::Size, b' ' | b'\t') if self.line_bytes > 1 => Ok(ChunkState::SizeBlank),
            (ChunkState::Size, b';') if self.line_bytes > 1 => Ok(ChunkState::Extension),
            (ChunkState::Size, b'\r') if self.line_bytes > 1 => Ok(ChunkState::SizeLf),
            (ChunkState::SizeBlank, b' ' | b'\t') => Ok(ChunkState::SizeBlank),
            (ChunkState::SizeBlank, b';') => Ok(ChunkState::Extension),
            (ChunkState::SizeBlank | ChunkState::Extension, b'\r') => Ok(ChunkState::SizeLf),
            (ChunkState::Extension, _) if is_text => Ok(ChunkState::Extension),
            (ChunkState::SizeLf, b'\n') => {
                self.line_bytes = 0;
                Ok(if self.remaining == 0 { ChunkState::TrailerStart } else { ChunkState::Data })
            }
            (ChunkState::DataCr, b'\r') => Ok(ChunkState::DataLf),
            (ChunkState::DataLf, b'\n') => {
                self.line_bytes = 0;
                Ok(ChunkState::Size)
            }
            (ChunkState::TrailerStart, b'\r') => Ok(ChunkState::LastLf),
            (ChunkState::TrailerName, b':') => Ok(ChunkState::Trailer),
            (ChunkState::TrailerStart | ChunkState::TrailerName, _)
                if byte.is_ascii_graphic() && byte != b':' =>
            {
                Ok(ChunkState::TrailerName)
            }
            (ChunkState::Trailer, b'\r') => Ok(ChunkState::TrailerLf),
            (ChunkState::Trailer, _) if is_text => Ok(ChunkState::Trailer),
            (ChunkState::TrailerLf, b'\n') => Ok(ChunkState::TrailerStart),
            (ChunkState::LastLf, b'\n') => Ok(ChunkState::Done),
            _ => Err(InvalidChunk),
        }
    }

    fn push_size_digit(&mut self, byte: u8) -> Result<ChunkState, InvalidChunk> {
        let value = char::from(byte).to_digit(16).ok_or(InvalidChunk)?;
        let left = if self.line_bytes == 1 { 0 } else { self.remaining };
        self.remaining =
            left.checked_mul(16).and_then(|it| it.checked_add(value.into())).ok_or(InvalidChunk)?;
        Ok(ChunkState::Size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn chunks() -> Framing {
        Framing::Chunks(ChunkDecoder::default())
    }

    #[rstest]
    #[case::none("0\r\n\r\n", 5)]
    #[case::one("3\r\nabc\r\n0\r\n\r\n", 13)]
    #[case::letters_and_zeroes("000A\r\n0123456789\r\n00\r\n\r\n", 24)]
    #[case::extensions("3;a=b\r\nabc\r\n0 ; x\r\n\r\n", 21)]
    #[case::trailers("0\r\na: b\r\nc: d\r\n\r\n", 17)]
    #[case::something_behind("0\r\n\r\nHTTP/1.1 ", 5)]
    #[case::what_looks_like_an_end("7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", 17)]
    fn chunks_end_where_they_end(#[case] text: &str, #[case] length: usize) {
        for step in 1..=text.len() {
            let (mut framing, mut taken) = (chunks(), 0);
            for piece in text.as_bytes().chunks(step) {
                assert_eq!(framing.is_complete(), taken == length, "{step}");
                taken += framing.consume(piece).unwrap();
            }
            assert_eq!((taken, framing.is_complete()), (length, true), "{step}");
        }
    }

    #[rstest]
    #[case("\r\n")]
    #[case(";a\r\n")]
    #[case("g\r\n")]
    #[case("-1\r\n")]
    #[case("0x3\r\nabc\r\n")]
    #[case("3\nabc\r\n")]
    #[case("3;a\nabc\r\n")]
    #[case("3\r\nabcd\r\n")]
    #[case("3\r\nabc0\r\n\r\n")]
    #[case("0\r\na: b\n\r\n")]
    #[case("2 9\r\nab\r\n")]
    #[case("2;a\0b\r\nab\r\n")]
    #[case("0\r\n a: b\r\n\r\n")]
    #[case("0\r\nno name\r\n\r\n")]
    #[case("0\r\n: b\r\n\r\n")]
    #[case("0\r\na: \0\r\n\r\n")]
    #[case("0\r\n\rx")]
    #[case("fffffffffffffffff\r\n")]
    fn what_makes_no_sense_is_refused(#[case] text: &str) {
        assert_eq!(chunks().consume(text.as_bytes()), Err(InvalidChunk));
    }

    #[test]
    fn lines_have_an_end() {
        let long = format!("1;{}", "x".repeat(MAX_LINE_BYTES));
        assert_eq!(chunks().consume(long.as_bytes()), Err(InvalidChunk));
        let many = format!("0\r\n{}", "a: b\r\n".repeat(MAX_LINE_BYTES));
        assert_eq!(chunks().consume(many.as_bytes()), Err(InvalidChunk));
    }

    #[test]
    fn a_length_is_counted_and_the_end_of_a_connection_is_not() {
        let mut framing = Framing::Length(3);
        assert_eq!((framing.consume(b"ab"), framing.is_complete()), (Ok(2), false));
        assert_eq!((framing.consume(b"cd"), framing.is_complete()), (Ok(1), true));
        assert_eq!((Framing::Close.consume(b"abc"), Framing::Close.is_complete()), (Ok(3), false));
        assert!(Framing::Length(0).is_complete());
    }

    #[test]
    fn what_only_the_end_of_a_connection_ends_goes_in_chunks() {
        let (mut out, framing) = (Vec::new(), Framing::Close);
        framing.encode(b"hello, this is long", &mut out);
        framing.encode(b"", &mut out);
        framing.finish(&mut out).unwrap();
        assert_eq!(out, b"13\r\nhello, this is long\r\n0\r\n\r\n");
        assert_eq!(
            (chunks().finish(&mut out), Framing::Length(1).finish(&mut out)),
            (Err(TruncatedBody), Err(TruncatedBody))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_read_alike(text in "[0-3a;\r\n ]{0,40}", step in 1_usize..8) {
            let mut whole = chunks();
            let at_once = whole.consume(text.as_bytes());
            let (mut framing, mut taken) = (chunks(), Ok(0));
            for piece in text.as_bytes().chunks(step) {
                taken = taken.and_then(|all| framing.consume(piece).map(|it| all + it));
            }
            prop_assert_eq!(&at_once, &taken);
            prop_assert_eq!(at_once.is_ok().then(|| whole.is_complete()), taken.is_ok().then(|| framing.is_complete()));
        }
    }
}
