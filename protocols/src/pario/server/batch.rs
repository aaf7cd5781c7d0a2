//! A batch of the log as bytes: its length, a checksum, the log's number, and what is in it.

use super::super::messages::Writer;

/// Bytes of a batch before what is in it.
pub(super) const HEAD: usize = 4 + 4 + 8;

/// What a batch of a checkpoint has at the most, in bytes: its length is in four.
pub(super) const LONGEST: usize = 1 << 30;

/// Fills in the head of a batch.
///
/// # Panics
///
/// If its length is none of four bytes. A checkpoint is cut before that; one batch of changes never has so many. What would be written
/// could not be read again.
pub(super) fn sealed(log: u64, Writer(mut bytes): Writer) -> Vec<u8> {
    let len = bytes.len() - HEAD;
    let Ok(short) = u32::try_from(len) else { panic!("a batch of {len} bytes") };
    bytes[..4].copy_from_slice(&short.to_le_bytes());
    bytes[8..HEAD].copy_from_slice(&log.to_le_bytes());
    let sum = checksum(&bytes);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Of a batch, but for the sum itself.
fn checksum(batch: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&batch[..4]);
    sum.update(&batch[8..]);
    sum.finalize()
}

/// What is in the batch that begins at a byte of a log, and where it ends; `None` if none is whole there.
pub(super) fn batch(log: u64, bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(at..)?;
    let len = u32::from_le_bytes(*rest.first_chunk()?) as usize;
    // The number first: it is compared at every byte behind a broken batch.
    let number = rest.get(8..HEAD)?;
    let whole = rest.get(..HEAD.checked_add(len)?)?;
    let good = number == log.to_le_bytes() && len > 0 && whole[4..8] == checksum(whole).to_le_bytes();
    good.then(|| (&whole[HEAD..], at + whole.len()))
}
