//! Between a daemon and the thread on which its systems run: frames on a pair of connected sockets, whose readiness wakes either end.
//!
//! | bytes | |
//! |---|---|
//! | 4 | the length of what follows, little-endian |
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
    /// From them: it was not; why, in UTF-8.
    Failed = 4,
    /// From them: what they report, as JSON.
    Report = 5,
    /// To files: serve this.
    Files = 6,
}

const KINDS: [Kind; 6] = [Kind::Segments, Kind::Stop, Kind::Done, Kind::Failed, Kind::Report, Kind::Files];
const HEADER: usize = 1 + 8;

impl Frame {
    /// A frame that is about no call.
    pub fn of(kind: Kind, body: Vec<u8>) -> Frame {
        Frame { kind, call: 0, body }
    }

    /// Writes it.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&((HEADER + self.body.len()) as u32).to_le_bytes());
        to.push(self.kind as u8);
        to.extend_from_slice(&self.call.to_le_bytes());
        to.extend_from_slice(&self.body);
    }

    /// Takes the first frame out of what has come; none if it is not all there.
    ///
    /// # Panics
    ///
    /// The other end is of this process: if that is no frame, it is our mistake.
    pub fn take(from: &mut Vec<u8>) -> Option<Frame> {
        let length = u32::from_le_bytes(*from.first_chunk()?) as usize;
        if from.len() < 4 + length {
            return None;
        }
        let frame: Vec<u8> = from.drain(..4 + length).skip(4).collect();
        let (kind, rest) = frame.split_first().expect("a frame says what it is");
        let (call, body) = rest.split_first_chunk().expect("a frame has its call");
        let kind = KINDS.into_iter().find(|known| *known as u8 == *kind).expect("a frame is of a known kind");
        Some(Frame { kind, call: u64::from_le_bytes(*call), body: body.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_whatever_the_pieces_in_which_they_came() {
        let frames = [
            Frame { kind: Kind::Files, call: 7, body: vec![1, 2, 3] },
            Frame::of(Kind::Stop, Vec::new()),
            Frame { kind: Kind::Failed, call: u64::MAX, body: b"why".to_vec() },
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut bytes));
        for piece in [1, 5, 64] {
            let (mut came, mut found) = (Vec::new(), Vec::new());
            for part in bytes.chunks(piece) {
                came.extend_from_slice(part);
                found.extend(std::iter::from_fn(|| Frame::take(&mut came)));
            }
            assert_eq!((found, came.len()), (frames.to_vec(), 0));
        }
    }
}
