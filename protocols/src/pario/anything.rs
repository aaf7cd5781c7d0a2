//! What the decoders of files make of any bytes: for fuzzers.

use super::messages::{Answer, Request};
use super::server;

/// Reads bytes as what the first of them says: a request, an answer, or the batches of a log, each with its length (2 bytes) before it.
/// What could be read is written and read again.
///
/// # Panics
///
/// What was written is read otherwise: a decoder or an encoder is wrong.
pub fn read_anything(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 3 {
        0 => {
            if let Some((id, request)) = Request::decode(bytes) {
                let written = request.encode(id);
                assert_eq!(Request::decode(&written), Some((id, request)));
            }
        }
        1 => {
            if let Some((id, answer)) = Answer::decode(bytes) {
                let written = answer.encode(id);
                assert_eq!(Answer::decode(&written), Some((id, answer)));
            }
        }
        _ => {
            let (mut bodies, mut rest) = (Vec::new(), bytes);
            while let Some((len, behind)) = rest.split_first_chunk() {
                let len = usize::from(u16::from_le_bytes(*len)).min(behind.len());
                let (body, behind) = behind.split_at(len);
                bodies.push(body);
                rest = behind;
            }
            server::read_log_of(&bodies);
        }
    }
}
