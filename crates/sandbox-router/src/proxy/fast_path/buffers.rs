//! Buffers of a worker. They go from connection to connection: only what is being worked on has one.

use std::ops::{Deref, DerefMut};

use parking_lot::Mutex;

/// Room of a buffer. A head that is longer is not plain.
pub(super) const SIZE: usize = 16 * 1024;
/// How many are kept that nobody needs at the moment.
const SPARE: usize = 64;

/// Buffers that nobody needs at the moment.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// An empty one.
    pub(super) fn take(&self) -> Buffer<'_> {
        let bytes = self.0.lock().pop().unwrap_or_else(|| Vec::with_capacity(SIZE));
        Buffer { bytes, home: self }
    }
}

/// A buffer that goes home when it is dropped.
pub(super) struct Buffer<'a> {
    bytes: Vec<u8>,
    home: &'a Buffers,
}

impl<'a> Buffer<'a> {
    /// No room at all, and nothing in it.
    pub(super) fn none(home: &'a Buffers) -> Self {
        Self { bytes: Vec::new(), home }
    }
}

impl Deref for Buffer<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        // One that had to grow is not worth keeping, and none is none.
        if bytes.capacity() != SIZE {
            return;
        }
        bytes.clear();
        let mut all = self.home.0.lock();
        if all.len() < SPARE {
            all.push(bytes);
        }
    }
}
