//! The `-json` stream of terraform and tofu.
//!
//! Contract: nothing that a child prints stops the reading. Unknown types and plain text are kept, a line that is
//! longer than the limit is counted and skipped, and text is borrowed from the line wherever it needs no unescaping.

mod event;
mod lines;
mod progress;

pub use event::{ChangeSummary, Diagnostic, Event, Hook, Kind, PlannedChange, Position, Raw, Text};
pub use lines::{LINE_LIMIT, Line, Lines};
pub use progress::{Activity, Progress};

/// The major version of the stream that the driver knows.
pub const UI_MAJOR: u64 = 1;

/// What [`read_all`] hands on.
#[derive(Debug)]
pub enum Item<'a> {
    /// A line of the stream.
    Event(Event<'a>),
    /// A line that was too long and of which only the length is known.
    Oversized {
        /// Its length in bytes.
        bytes: u64,
    },
}

/// Splits a chunk into lines and hands the events on; the rest of an unfinished line stays in `lines`.
pub fn read_chunk(lines: &mut Lines, chunk: &[u8], mut each: impl FnMut(Item<'_>)) {
    lines.feed(chunk, |line| match line {
        Line::Whole(bytes) => each(Item::Event(Event::parse(bytes))),
        Line::Oversized { bytes } => each(Item::Oversized { bytes }),
    });
}

/// Reads a whole stream, the last line included even if it is not finished.
pub fn read_all(bytes: &[u8], mut each: impl FnMut(Item<'_>)) {
    let mut lines = Lines::new(LINE_LIMIT);
    read_chunk(&mut lines, bytes, &mut each);
    lines.finish(|line| match line {
        Line::Whole(bytes) => each(Item::Event(Event::parse(bytes))),
        Line::Oversized { bytes } => each(Item::Oversized { bytes }),
    });
}

#[cfg(test)]
mod tests;
