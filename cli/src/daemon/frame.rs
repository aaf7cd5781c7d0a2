//! What a daemon and the thread on which its systems run tell each other ([`crate::bridge`]).
//!
//! | bytes | |
//! |---|---|
//! | 1 | what it is |
//! | 8 | the call that it is about, little-endian |
//! | n | the body |

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// The call that it is about, if it is about one.
    pub call: u64,
    /// The rest.
    pub body: Vec<u8>,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To segments: serve this.
    Segments = 1,
    /// To the systems: end.
    Stop = 2,
    /// From them: it was done.
    Done = 3,
    /// From them: it was not; why, as JSON.
    Failed = 4,
    /// From them: what they report, as JSON.
    Report = 5,
    /// To files: serve this.
    Files = 6,
    /// To the systems: a node that has come back is at another address; its rank and that, as JSON.
    Moved = 7,
    /// To locks: serve this.
    Locks = 8,
}

const KINDS: [Kind; 8] = [
    Kind::Segments,
    Kind::Stop,
    Kind::Done,
    Kind::Failed,
    Kind::Report,
    Kind::Files,
    Kind::Moved,
    Kind::Locks,
];

impl Frame {
    /// A frame that is about no call.
    pub fn of(kind: Kind, body: Vec<u8>) -> Frame {
        Frame { kind, call: 0, body }
    }

    /// As a message.
    pub fn to_message(&self) -> Vec<u8> {
        [&[self.kind as u8][..], &self.call.to_le_bytes(), &self.body].concat()
    }

    /// What a message says.
    ///
    /// # Panics
    ///
    /// The other end is of this process: if that is no frame, it is our mistake.
    pub fn of_message(message: &[u8]) -> Frame {
        let (kind, rest) = message.split_first().expect("a frame says what it is");
        let (call, body) = rest.split_first_chunk().expect("a frame has its call");
        let kind = KINDS.into_iter().find(|known| *known as u8 == *kind).expect("a frame is of a known kind");
        Frame { kind, call: u64::from_le_bytes(*call), body: body.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for kind in KINDS {
            let frame = Frame { kind, call: u64::MAX - 1, body: b"why".to_vec() };
            assert_eq!(Frame::of_message(&frame.to_message()), frame);
        }
    }
}
