//! Answers as bytes.

use super::super::DirEntry;
use super::super::access::Run;
use super::super::error::Refusal;
use super::{Answer, Frame, Reader, Writer, kind};

impl Answer {
    /// Its bytes for a stream, its data apart.
    pub(in super::super) fn into_frame(mut self, id: u64) -> Frame {
        let data = match &mut self {
            Answer::Data { bytes, .. } => std::mem::take(bytes),
            _ => Vec::new(),
        };
        Frame { head: self.encode(id), data }
    }

    /// Reads what [`Answer::into_frame`] made.
    pub(in super::super) fn of_frame(frame: Frame) -> Option<(u64, Answer)> {
        let (id, mut answer) = Answer::decode(&frame.head)?;
        match &mut answer {
            Answer::Data { bytes, .. } if bytes.is_empty() => *bytes = frame.data,
            _ if frame.data.is_empty() => {}
            _ => return None,
        }
        Some((id, answer))
    }

    /// Its bytes, with the number of the call that it answers.
    pub(in super::super) fn encode(&self, id: u64) -> Vec<u8> {
        let mut to = Writer::new(self.kind(), id);
        match self {
            Answer::Done => {}
            Answer::Refused(refusal) => to.0.push(*refusal as u8),
            Answer::At { epoch: word } | Answer::Place { at: word } | Answer::Lives { given: word } => {
                to.u64(*word);
            }
            Answer::Gathered(word) | Answer::Size(word) => to.u64(*word),
            Answer::Opened { handle, layout, epoch } => {
                to.u64(handle.0);
                to.layout(*layout);
                to.u64(*epoch);
            }
            Answer::Open { files, more } => {
                to.0.push(u8::from(*more));
                for (handle, opens) in files {
                    to.u64(handle.0);
                    to.u32(*opens);
                }
            }
            Answer::Names { names, more } => {
                to.0.push(u8::from(*more));
                for DirEntry { name, is_directory } in names {
                    to.0.push(u8::from(*is_directory));
                    to.name(name);
                }
            }
            Answer::Stat { file, attributes } => {
                to.attributes(*attributes);
                if let Some((handle, layout)) = file {
                    to.u64(handle.0);
                    to.layout(*layout);
                }
            }
            Answer::Cuts((epoch, cuts)) => {
                to.u64(*epoch);
                to.u64(*cuts);
            }
            Answer::Data { bytes, short } => {
                to.0.push(u8::from(*short));
                to.0.extend(bytes);
            }
            Answer::Pushed { short } => to.0.push(u8::from(*short)),
            Answer::Offer { op, place, runs, writes } => {
                to.u64(*op);
                to.0.extend(place.to_bytes());
                to.0.push(u8::from(*writes));
                for Run { at, len } in runs {
                    to.u64(*at);
                    to.u32(*len);
                }
            }
        }
        to.0
    }

    fn kind(&self) -> u8 {
        match self {
            Answer::Done => kind::DONE,
            Answer::Refused(_) => kind::REFUSED,
            Answer::Opened { .. } => kind::OPENED,
            Answer::Names { .. } => kind::NAMES,
            Answer::Size(_) => kind::OBJECT,
            Answer::Data { .. } => kind::DATA,
            Answer::Pushed { .. } => kind::PUSHED,
            Answer::Offer { .. } => kind::OFFER,
            Answer::At { .. } => kind::AT,
            Answer::Open { .. } => kind::HAS_OPEN,
            Answer::Stat { .. } => kind::HAS,
            Answer::Place { .. } => kind::PLACE_AT,
            Answer::Cuts(_) => kind::CUTS,
            Answer::Gathered(_) => kind::GATHERED,
            Answer::Lives { .. } => kind::LIVING,
        }
    }

    /// Reads bytes: the call's number and the answer. `None` if they are none.
    pub(in super::super) fn decode(bytes: &[u8]) -> Option<(u64, Answer)> {
        let mut from = Reader(bytes);
        let (kind, id) = (from.u8()?, from.u64()?);
        let answer = match kind {
            kind::DONE => Answer::Done,
            kind::REFUSED => Answer::Refused(Refusal::from_code(from.u8()?)?),
            kind::AT => Answer::At { epoch: from.u64()? },
            kind::OPENED => {
                Answer::Opened { handle: from.handle()?, layout: from.layout()?, epoch: from.u64()? }
            }
            kind::HAS_OPEN => {
                let (more, mut files) = (from.flag()?, Vec::new());
                while !from.0.is_empty() {
                    files.push((from.handle()?, from.u32()?));
                }
                Answer::Open { files, more }
            }
            kind::NAMES => {
                let (more, mut names) = (from.flag()?, Vec::new());
                while !from.0.is_empty() {
                    names.push(from.entry()?);
                }
                Answer::Names { names, more }
            }
            kind::HAS => {
                let attributes = from.attributes()?;
                let is_file = !from.0.is_empty();
                let file = if is_file { Some((from.handle()?, from.layout()?)) } else { None };
                Answer::Stat { file, attributes }
            }
            kind::PLACE_AT => Answer::Place { at: from.u64()? },
            kind::CUTS => Answer::Cuts((from.u64()?, from.u64()?)),
            kind::GATHERED => Answer::Gathered(from.u64()?),
            kind::OBJECT => Answer::Size(from.u64()?),
            kind::LIVING => Answer::Lives { given: from.u64()? },
            kind::DATA => {
                let short = from.flag()?;
                Answer::Data { bytes: from.rest(), short }
            }
            kind::PUSHED => Answer::Pushed { short: from.flag()? },
            kind::OFFER => {
                let (op, place) = (from.u64()?, from.slice()?);
                let (writes, mut runs) = (from.flag()?, Vec::new());
                while !from.0.is_empty() {
                    runs.push(Run { at: from.u64()?, len: from.u32()? });
                }
                Answer::Offer { op, place, runs, writes }
            }
            _ => return None,
        };
        from.end((id, answer))
    }
}
