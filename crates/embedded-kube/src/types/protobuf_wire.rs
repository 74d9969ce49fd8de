//! Protobuf wire format: tags, numbers and lengths, with the errors of kube-apiserver's decoder.

/// The raw value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireValue<'a> {
    /// Integers and booleans.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes; no built-in type has such a field.
    Fixed32,
    /// Strings, bytes, messages, packed lists.
    Bytes(&'a [u8]),
}

/// Reads the fields of one message.
pub struct WireReader<'a> {
    rest: &'a [u8],
    /// Name of the message, for errors.
    name: &'a str,
}

impl<'a> WireReader<'a> {
    pub fn new(bytes: &'a [u8], name: &'a str) -> Self {
        Self { rest: bytes, name }
    }

    /// The next field, or `None` at the end.
    pub fn field(&mut self) -> Result<Option<(u32, WireValue<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        if tag & 7 == 4 {
            return Err(format!("proto: {}: wiretype end group for non-group", self.name));
        }
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        let number = number
            .ok_or_else(|| format!("proto: {}: illegal tag {} (wire type {tag})", self.name, tag >> 3))?;
        let piece = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => WireValue::Bytes(self.bytes()?),
            5 => {
                self.array::<4>()?;
                WireValue::Fixed32
            }
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        Ok(Some((number, piece)))
    }

    pub fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or_else(unexpected_eof)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    /// Whether the input is consumed.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(unexpected_eof)?;
        self.rest = rest;
        Ok(*head)
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = self.varint()?;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| i64::try_from(*length).is_ok())
            .ok_or("proto: negative length found during unmarshaling")?;
        let (head, rest) = self.rest.split_at_checked(length).ok_or_else(unexpected_eof)?;
        self.rest = rest;
        Ok(head)
    }
}

fn unexpected_eof() -> String {
    "unexpected EOF".to_owned()
}
