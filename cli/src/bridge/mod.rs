//! Between two threads of a process: messages on a pair of connected sockets, whose readiness wakes either end.
//!
//! One thread runs an RDMA runtime ([`Outbox`]), the other one tokio ([`End`]); neither can wait in the other's way. A message is its
//! length, four bytes, little-endian, and its bytes.

mod end;
mod outbox;

pub use end::End;
pub use outbox::Outbox;

#[cfg(feature = "hw")]
use std::io::{self, Read};
#[cfg(feature = "hw")]
use std::os::unix::net::UnixStream;

/// How many bytes are read at a time.
const CHUNK: usize = 16_384;

/// Writes a message.
pub fn write(message: &[u8], to: &mut impl Extend<u8>) {
    to.extend((message.len() as u32).to_le_bytes());
    to.extend(message.iter().copied());
}

/// Takes the first message out of what has come; none if it is not all there.
pub fn take(from: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = u32::from_le_bytes(*from.first_chunk()?) as usize;
    if from.len() < 4 + length {
        return None;
    }
    Some(from.drain(..4 + length).skip(4).collect())
}

/// Waits for the next message on a socket that blocks; what came behind it stays in `heard`. None when the other end is gone.
///
/// # Errors
/// The socket's.
#[cfg(feature = "hw")]
pub fn next(stream: &mut UnixStream, heard: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = [0; CHUNK];
    loop {
        if let Some(message) = take(heard) {
            return Ok(Some(message));
        }
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(None),
            Ok(read) => heard.extend_from_slice(&bytes[..read]),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_whatever_the_pieces_in_which_they_came() {
        let messages = [vec![1, 2, 3], Vec::new(), vec![7; 40]];
        let mut bytes = Vec::new();
        messages.iter().for_each(|message| write(message, &mut bytes));
        for piece in [1, 5, 64] {
            let (mut came, mut found) = (Vec::new(), Vec::new());
            for part in bytes.chunks(piece) {
                came.extend_from_slice(part);
                found.extend(std::iter::from_fn(|| take(&mut came)));
            }
            assert_eq!((found, came.len()), (messages.to_vec(), 0));
        }
    }
}
