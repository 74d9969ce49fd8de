//! Splits chunks into lines, without copying lines that are complete within a chunk.

/// Maximum line length. Terraform's `outputs` lines reach 300 kB.
pub const LINE_LIMIT: usize = 64 * 1024 * 1024;

/// A line without its line ending.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamLine<'a> {
    /// A complete line.
    Complete(&'a [u8]),
    /// A line above the limit; its contents are dropped.
    Oversized {
        /// Its length in bytes.
        bytes: u64,
    },
}

/// Line splitter with the unfinished line of the previous chunk.
#[derive(Debug)]
pub struct LineSplitter {
    limit: usize,
    pending: Vec<u8>,
    /// Bytes dropped so far, while inside an oversized line.
    dropped: Option<u64>,
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self::new(LINE_LIMIT)
    }
}

impl LineSplitter {
    /// Creates a splitter with a line limit.
    pub const fn new(limit: usize) -> Self {
        Self { limit, pending: Vec::new(), dropped: None }
    }

    /// Splits the next chunk and passes each line that ends in it to `each`. Empty lines are skipped.
    pub fn feed(&mut self, chunk: &[u8], mut each: impl FnMut(StreamLine<'_>)) {
        let mut rest = chunk;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.end_line(&rest[..end], &mut each);
            rest = &rest[end + 1..];
        }
        self.buffer_partial(rest);
    }

    /// Passes the last, unterminated line to `each` at the end of the stream.
    pub fn finish(&mut self, mut each: impl FnMut(StreamLine<'_>)) {
        self.end_line(&[], &mut each);
    }

    /// Number of buffered bytes.
    pub const fn pending(&self) -> usize {
        self.pending.len()
    }

    fn end_line(&mut self, tail: &[u8], each: &mut impl FnMut(StreamLine<'_>)) {
        self.drop_if_oversized(tail);
        if let Some(dropped) = self.dropped.take() {
            each(StreamLine::Oversized { bytes: dropped + tail.len() as u64 });
            return;
        }
        let line = if self.pending.is_empty() {
            tail
        } else {
            self.pending.extend_from_slice(tail);
            &self.pending
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            each(StreamLine::Complete(line));
        }
        self.pending.clear();
    }

    fn buffer_partial(&mut self, part: &[u8]) {
        self.drop_if_oversized(part);
        match &mut self.dropped {
            Some(dropped) => *dropped += part.len() as u64,
            None => self.pending.extend_from_slice(part),
        }
    }

    /// Drops an oversized line and frees its memory.
    fn drop_if_oversized(&mut self, more: &[u8]) {
        if self.dropped.is_none() && self.pending.len() + more.len() > self.limit {
            self.dropped = Some(std::mem::take(&mut self.pending).len() as u64);
        }
    }
}
