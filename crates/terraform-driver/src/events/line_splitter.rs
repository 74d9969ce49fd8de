//! Lines out of chunks, without copying the ones that lie whole inside a chunk.

/// The longest line that is read; an `outputs` line of 300 kB is ordinary, one above this is not terraform's.
pub const LINE_LIMIT: usize = 64 * 1024 * 1024;

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// The whole line.
    Whole(&'a [u8]),
    /// Longer than the limit; the next line is read as usual.
    Oversized {
        /// Its length in bytes.
        bytes: u64,
    },
}

/// The state between two chunks.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    pending: Vec<u8>,
    /// Bytes of an oversized line seen so far, while inside one.
    dropped: Option<u64>,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(LINE_LIMIT)
    }
}

impl Lines {
    /// A splitter with its own limit.
    pub const fn new(limit: usize) -> Self {
        Self { limit, pending: Vec::new(), dropped: None }
    }

    /// Takes the next chunk and hands on every line that ends in it. Empty lines are left out.
    pub fn feed(&mut self, chunk: &[u8], mut each: impl FnMut(Line<'_>)) {
        let mut rest = chunk;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.end_line(&rest[..end], &mut each);
            rest = &rest[end + 1..];
        }
        self.keep(rest);
    }

    /// Hands on what is left when the stream has ended.
    pub fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        self.end_line(&[], &mut each);
    }

    /// Bytes that wait for the end of their line.
    pub const fn pending(&self) -> usize {
        self.pending.len()
    }

    fn end_line(&mut self, tail: &[u8], each: &mut impl FnMut(Line<'_>)) {
        self.give_up_if_longer_with(tail);
        if let Some(dropped) = self.dropped.take() {
            each(Line::Oversized { bytes: dropped + tail.len() as u64 });
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
            each(Line::Whole(line));
        }
        self.pending.clear();
    }

    fn keep(&mut self, part: &[u8]) {
        self.give_up_if_longer_with(part);
        match &mut self.dropped {
            Some(dropped) => *dropped += part.len() as u64,
            None => self.pending.extend_from_slice(part),
        }
    }

    /// Gives the memory back too: one such line must not cost its size for the rest of the run.
    fn give_up_if_longer_with(&mut self, more: &[u8]) {
        if self.dropped.is_none() && self.pending.len() + more.len() > self.limit {
            self.dropped = Some(std::mem::take(&mut self.pending).len() as u64);
        }
    }
}
