//! Buffer pool of a worker. Buffers move between connections: only active ones hold one.

use std::ops::{Deref, DerefMut};

use parking_lot::Mutex;

/// Size of a buffer. Longer heads do not take the fast path.
pub(super) const BUFFER_SIZE: usize = 16 * 1024;
/// Maximum number of unused buffers kept.
const MAX_SPARE: usize = 64;

/// Unused buffers.
#[derive(Debug, Default)]
pub(in crate::proxy) struct BufferPool(Mutex<Vec<Vec<u8>>>);

impl BufferPool {
    /// Takes an empty buffer.
    pub(super) fn take(&self) -> PooledBuffer<'_> {
        let bytes = self.0.lock().pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_SIZE));
        PooledBuffer { bytes, pool: self }
    }
}

/// A buffer that returns to the pool when dropped.
pub(super) struct PooledBuffer<'a> {
    bytes: Vec<u8>,
    pool: &'a BufferPool,
}

impl<'a> PooledBuffer<'a> {
    /// A buffer without capacity.
    pub(super) fn empty(pool: &'a BufferPool) -> Self {
        Self { bytes: Vec::new(), pool }
    }
}

impl Deref for PooledBuffer<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for PooledBuffer<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl Drop for PooledBuffer<'_> {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        // Buffers that grew are not kept.
        if bytes.capacity() != BUFFER_SIZE {
            return;
        }
        bytes.clear();
        let mut all = self.pool.0.lock();
        if all.len() < MAX_SPARE {
            all.push(bytes);
        }
    }
}
