//! Parser of the `-json` event stream of terraform and tofu.
//!
//! No input is an error: unknown types and plain text are preserved, and a line above the limit is counted and skipped. Text is
//! borrowed from the line unless it needs unescaping.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use crate::workspace::files::FileError;

mod event;
mod line_splitter;
mod progress;

pub use event::{
    ChangeSummary, Diagnostic, Event, EventKind, EventText, PlannedChange, Position, RawJson, ResourceHook,
};
pub use line_splitter::{LINE_LIMIT, LineSplitter, StreamLine};
pub use progress::{ResourceActivity, TerraformProgress};

/// Bytes that are read from a file at a time.
const READ_SIZE: usize = 256 * 1024;

/// Supported major version of the stream.
pub const UI_MAJOR: u64 = 1;

/// An item that [`read_all`] and [`read_chunk`] pass on.
#[derive(Debug)]
pub enum StreamItem<'a> {
    /// An event.
    Event(Event<'a>),
    /// A line above the length limit.
    Oversized {
        /// Its length in bytes.
        bytes: u64,
    },
}

/// Splits a chunk into lines and passes on the events; an unfinished line stays in `lines`.
pub fn read_chunk(lines: &mut LineSplitter, chunk: &[u8], mut each: impl FnMut(StreamItem<'_>)) {
    lines.feed(chunk, |line| match line {
        StreamLine::Complete(bytes) => each(StreamItem::Event(Event::parse(bytes))),
        StreamLine::Oversized { bytes } => each(StreamItem::Oversized { bytes }),
    });
}

/// Reads a complete stream, including an unterminated last line.
pub fn read_all(bytes: &[u8], mut each: impl FnMut(StreamItem<'_>)) {
    let mut lines = LineSplitter::new(LINE_LIMIT);
    read_chunk(&mut lines, bytes, &mut each);
    lines.finish(|line| match line {
        StreamLine::Complete(bytes) => each(StreamItem::Event(Event::parse(bytes))),
        StreamLine::Oversized { bytes } => each(StreamItem::Oversized { bytes }),
    });
}

/// Reads the stream in a file, if there is one. Keeps one line in memory at a time: a log may be larger than the memory.
pub fn read_file(path: &Path, mut each: impl FnMut(StreamItem<'_>)) -> Result<(), FileError> {
    read_lines(path, |line| match line {
        StreamLine::Complete(bytes) => each(StreamItem::Event(Event::parse(bytes))),
        StreamLine::Oversized { bytes } => each(StreamItem::Oversized { bytes }),
    })
}

/// The same for lines that are not parsed.
pub(crate) fn read_lines(path: &Path, mut each: impl FnMut(StreamLine<'_>)) -> Result<(), FileError> {
    let fail = |source| FileError::new("read", path, source);
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(fail)?,
    };
    let (mut lines, mut chunk) = (LineSplitter::new(LINE_LIMIT), vec![0; READ_SIZE]);
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => lines.feed(&chunk[..count], &mut each),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(fail(error)),
        }
    }
    lines.finish(each);
    Ok(())
}

#[cfg(test)]
mod tests;
