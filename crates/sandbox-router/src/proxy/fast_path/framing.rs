//! Where the body of an answer ends. The bytes themselves go on as they are, unless nothing but the end of the connection would tell:
//! then they go in chunks, so that callers know a whole answer from a part.

/// Where a body ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes more.
    Length(u64),
    /// After the last chunk and its trailers.
    Chunks(Chunks),
    /// Where the connection ends.
    Close,
}

/// A place in a body of chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Chunks {
    at: At,
    /// Of the chunk: the size as far as it was read, then what is left of it.
    left: u64,
    /// Bytes of the present line, or of all trailers.
    line: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    #[default]
    Size,
    /// Blanks behind the size.
    Blank,
    Extension,
    SizeEnd,
    Data,
    DataReturn,
    DataEnd,
    TrailerStart,
    TrailerName,
    Trailer,
    TrailerEnd,
    LastEnd,
    Over,
}

/// Extensions of a chunk, and all trailers together, may be so long.
const LONGEST: usize = 8 * 1024;

/// Not the body that its head announced.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chunks of the answer make no sense")]
pub(super) struct Nonsense;

/// The pod's connection ended before the body did.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pod broke off in the middle of its answer")]
pub(super) struct Cut;

impl Framing {
    /// How many of these bytes belong to the body.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, Nonsense> {
        match self {
            Self::Length(left) => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                Ok(taken)
            }
            Self::Chunks(chunks) => chunks.take(bytes),
            Self::Close => Ok(bytes.len()),
        }
    }

    /// Writes bytes that belong to the body as callers get them.
    pub(super) fn write(&self, bytes: &[u8], out: &mut Vec<u8>) {
        if *self != Self::Close {
            out.extend_from_slice(bytes);
        } else if !bytes.is_empty() {
            out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// The pod's connection has ended. Writes what callers have to know of that.
    pub(super) fn end(&self, out: &mut Vec<u8>) -> Result<(), Cut> {
        if *self != Self::Close {
            return Err(Cut);
        }
        out.extend_from_slice(b"0\r\n\r\n");
        Ok(())
    }

    /// The body is complete.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunks(chunks) => chunks.at == At::Over,
            Self::Close => false,
        }
    }
}

impl Chunks {
    fn take(&mut self, bytes: &[u8]) -> Result<usize, Nonsense> {
        let mut taken = 0;
        while taken < bytes.len() && self.at != At::Over {
            if self.at == At::Data {
                let all = (bytes.len() - taken).min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= all as u64;
                taken += all;
                if self.left == 0 {
                    self.at = At::DataReturn;
                }
            } else {
                self.at = self.next(bytes[taken])?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// The place behind a byte that is not data.
    fn next(&mut self, byte: u8) -> Result<At, Nonsense> {
        self.line += 1;
        if self.line > LONGEST {
            return Err(Nonsense);
        }
        // Lines end with a return and a feed: what others read differently is not passed on.
        let is_text = byte == b'\t' || !byte.is_ascii_control();
        match (self.at, byte) {
            (At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte),
            (At::Size, b' ' | b'\t') if self.line > 1 => Ok(At::Blank),
            (At::Size, b';') if self.line > 1 => Ok(At::Extension),
            (At::Size, b'\r') if self.line > 1 => Ok(At::SizeEnd),
            (At::Blank, b' ' | b'\t') => Ok(At::Blank),
            (At::Blank, b';') => Ok(At::Extension),
            (At::Blank | At::Extension, b'\r') => Ok(At::SizeEnd),
            (At::Extension, _) if is_text => Ok(At::Extension),
            (At::SizeEnd, b'\n') => {
                self.line = 0;
                Ok(if self.left == 0 { At::TrailerStart } else { At::Data })
            }
            (At::DataReturn, b'\r') => Ok(At::DataEnd),
            (At::DataEnd, b'\n') => {
                self.line = 0;
                Ok(At::Size)
            }
            (At::TrailerStart, b'\r') => Ok(At::LastEnd),
            (At::TrailerName, b':') => Ok(At::Trailer),
            (At::TrailerStart | At::TrailerName, _) if byte.is_ascii_graphic() && byte != b':' => {
                Ok(At::TrailerName)
            }
            (At::Trailer, b'\r') => Ok(At::TrailerEnd),
            (At::Trailer, _) if is_text => Ok(At::Trailer),
            (At::TrailerEnd, b'\n') => Ok(At::TrailerStart),
            (At::LastEnd, b'\n') => Ok(At::Over),
            _ => Err(Nonsense),
        }
    }

    fn digit(&mut self, byte: u8) -> Result<At, Nonsense> {
        let value = char::from(byte).to_digit(16).ok_or(Nonsense)?;
        let left = if self.line == 1 { 0 } else { self.left };
        self.left = left.checked_mul(16).and_then(|it| it.checked_add(value.into())).ok_or(Nonsense)?;
        Ok(At::Size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn chunks() -> Framing {
        Framing::Chunks(Chunks::default())
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
                assert_eq!(framing.is_over(), taken == length, "{step}");
                taken += framing.take(piece).unwrap();
            }
            assert_eq!((taken, framing.is_over()), (length, true), "{step}");
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
        assert_eq!(chunks().take(text.as_bytes()), Err(Nonsense));
    }

    #[test]
    fn lines_have_an_end() {
        let long = format!("1;{}", "x".repeat(LONGEST));
        assert_eq!(chunks().take(long.as_bytes()), Err(Nonsense));
        let many = format!("0\r\n{}", "a: b\r\n".repeat(LONGEST));
        assert_eq!(chunks().take(many.as_bytes()), Err(Nonsense));
    }

    #[test]
    fn a_length_is_counted_and_the_end_of_a_connection_is_not() {
        let mut framing = Framing::Length(3);
        assert_eq!((framing.take(b"ab"), framing.is_over()), (Ok(2), false));
        assert_eq!((framing.take(b"cd"), framing.is_over()), (Ok(1), true));
        assert_eq!((Framing::Close.take(b"abc"), Framing::Close.is_over()), (Ok(3), false));
        assert!(Framing::Length(0).is_over());
    }

    #[test]
    fn what_only_the_end_of_a_connection_ends_goes_in_chunks() {
        let (mut out, framing) = (Vec::new(), Framing::Close);
        framing.write(b"hello, this is long", &mut out);
        framing.write(b"", &mut out);
        framing.end(&mut out).unwrap();
        assert_eq!(out, b"13\r\nhello, this is long\r\n0\r\n\r\n");
        assert_eq!((chunks().end(&mut out), Framing::Length(1).end(&mut out)), (Err(Cut), Err(Cut)));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_read_alike(text in "[0-3a;\r\n ]{0,40}", step in 1_usize..8) {
            let mut whole = chunks();
            let at_once = whole.take(text.as_bytes());
            let (mut framing, mut taken) = (chunks(), Ok(0));
            for piece in text.as_bytes().chunks(step) {
                taken = taken.and_then(|all| framing.take(piece).map(|it| all + it));
            }
            prop_assert_eq!(&at_once, &taken);
            prop_assert_eq!(at_once.is_ok().then(|| whole.is_over()), taken.is_ok().then(|| framing.is_over()));
        }
    }
}
