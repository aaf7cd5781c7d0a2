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
        let writer = |kind| Writer::new(kind, id);
        let writer = match self {
            Answer::Done => writer(kind::DONE),
            Answer::Refused(refusal) => {
                let mut to = writer(kind::REFUSED);
                to.0.push(*refusal as u8);
                to
            }
            Answer::At { epoch } => {
                let mut to = writer(kind::AT);
                to.u64(*epoch);
                to
            }
            Answer::Opened { handle, layout, epoch } => {
                let mut to = writer(kind::OPENED);
                to.u64(handle.0);
                to.layout(*layout);
                to.u64(*epoch);
                to
            }
            Answer::Open { files, more } => {
                let mut to = writer(kind::HAS_OPEN);
                to.0.push(u8::from(*more));
                for (handle, opens) in files {
                    to.u64(handle.0);
                    to.0.extend(opens.to_le_bytes());
                }
                to
            }
            Answer::Names { names, more } => {
                let mut to = writer(kind::NAMES);
                to.0.push(u8::from(*more));
                for DirEntry { name, is_directory } in names {
                    to.0.push(u8::from(*is_directory));
                    to.name(name);
                }
                to
            }
            Answer::Stat { file, attributes } => {
                let mut to = writer(kind::HAS);
                to.attributes(*attributes);
                if let Some((handle, layout)) = file {
                    to.u64(handle.0);
                    to.layout(*layout);
                }
                to
            }
            Answer::Place { at } => {
                let mut to = writer(kind::PLACE_AT);
                to.u64(*at);
                to
            }
            Answer::Cuts((epoch, cuts)) => {
                let mut to = writer(kind::CUTS);
                to.u64(*epoch);
                to.u64(*cuts);
                to
            }
            Answer::Gathered(word) => {
                let mut to = writer(kind::GATHERED);
                to.u64(*word);
                to
            }
            Answer::Size(size) => {
                let mut to = writer(kind::OBJECT);
                to.u64(*size);
                to
            }
            Answer::Lives { given } => {
                let mut to = writer(kind::LIVING);
                to.u64(*given);
                to
            }
            Answer::Data { bytes, short } => {
                let mut to = writer(kind::DATA);
                to.0.push(u8::from(*short));
                to.0.extend(bytes);
                to
            }
            Answer::Pushed { short } => {
                let mut to = writer(kind::PUSHED);
                to.0.push(u8::from(*short));
                to
            }
            Answer::Offer { op, place, runs, writes } => {
                let mut to = writer(kind::OFFER);
                to.u64(*op);
                to.0.extend(place.to_bytes());
                to.0.push(u8::from(*writes));
                for Run { at, len } in runs {
                    to.u64(*at);
                    to.0.extend(len.to_le_bytes());
                }
                to
            }
        };
        writer.0
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
