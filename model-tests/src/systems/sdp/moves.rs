//! Writing and reading coded bytes: by calls that borrow, or with owned buffers of which several are under way.

use super::coding::Coding;
use super::workload::SdpWork;
use crate::polled::polled;
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use weft_protocols::rt::{JoinHandle, Rt};
use weft_protocols::sdp::{Mode, Sdp, SdpBuffer, SdpError, SdpStream, Transfer};
use weft_verbs::{Nanos, Verbs, VerbsError};

/// How long a user waits that gets no memory.
const BEFORE_MEMORY_IS_ASKED_FOR: Nanos = Nanos::from_millis(1);

/// How much of a request or an answer was read, and whether it is what was written.
pub(super) struct Read {
    pub bytes: u32,
    pub intact: bool,
    /// The longest wait for the next bytes.
    pub stall: Nanos,
}

/// What writes and reads for one client or one connection of a server, with its memory.
pub(super) struct Mover<V: Verbs> {
    rt: Rt<V>,
    sdp: Sdp<V>,
    /// The bytes of one call.
    call: Vec<u8>,
    owned: bool,
    owned_reads: bool,
    depth: usize,
    /// After how many owned buffers all are wanted back; 0 for never.
    recall: u32,
    /// Owned buffers that were given since.
    given: u32,
    /// In which mode bytes come before the next call, if that is changed.
    modes: Option<std::iter::Cycle<std::array::IntoIter<Mode, 3>>>,
    /// How many bytes the peer's private buffers are to take before the next call, if that is changed.
    sizes: Option<std::iter::Cycle<std::array::IntoIter<u32, 2>>>,
    /// Owned buffers that nothing is done with.
    free: Vec<SdpBuffer<V>>,
}

impl<V: Verbs> Mover<V> {
    pub fn new(rt: &Rt<V>, sdp: &Sdp<V>, work: &SdpWork) -> Mover<V> {
        let SdpWork { call, zcopy_threshold, zcopy_depth, owned_reads, recall, modes, resize, .. } = *work;
        let mut in_turn = [Mode::Buffered, Mode::Combined, Mode::Pipelined];
        in_turn.rotate_left(work.modes_from % 3);
        let in_turn = in_turn.into_iter().cycle();
        let sizes = [resize, work.buffer_bytes].into_iter().cycle();
        Mover {
            rt: rt.clone(),
            sdp: sdp.clone(),
            call: vec![0; call as usize],
            owned: zcopy_threshold > 0,
            owned_reads,
            depth: zcopy_depth as usize,
            recall,
            given: work.given_before,
            modes: (modes && zcopy_threshold > 0).then_some(in_turn),
            sizes: (resize > 0).then_some(sizes),
            free: Vec::new(),
        }
    }

    /// A buffer; where the system registers no more memory, once it does again.
    async fn buffer(&mut self) -> Result<SdpBuffer<V>, SdpError> {
        loop {
            if let Some(free) = self.free.pop() {
                return Ok(free);
            }
            match self.sdp.buffer(self.call.len() as u32) {
                Ok(buffer) => return Ok(buffer),
                Err(VerbsError::Os { .. }) => self.rt.sleep(BEFORE_MEMORY_IS_ASKED_FOR).await,
                Err(_) => return Err(SdpError::Closed),
            }
        }
    }

    /// Whether the buffer that is given now is one after which all are wanted back.
    fn recalls(&mut self) -> bool {
        self.given += 1;
        let recalls = self.recall > 0 && self.given >= self.recall;
        if recalls {
            self.given = 0;
        }
        recalls
    }

    /// Writes the bytes from one position to another.
    pub async fn write(
        &mut self,
        stream: &Rc<SdpStream<V>>,
        coding: Coding,
        from: u32,
        to: u32,
    ) -> Result<(), SdpError> {
        let mut under_way: VecDeque<JoinHandle<Transfer<V>>> = VecDeque::new();
        // What is given, and what of it was moved by calls that have ended.
        let (mut at, mut moved) = (from, from);
        let mut again = false;
        while at < to {
            let len = self.call.len().min((to - at) as usize);
            coding.fill(at.into(), &mut self.call[..len]);
            if let Some(bytes) = self.sizes.as_mut().and_then(Iterator::next) {
                stream.resize(bytes).await?;
            }
            if !self.owned {
                stream.write_all(&self.call[..len]).await?;
                at += len as u32;
                continue;
            }
            if under_way.len() == self.depth {
                moved += self.end_first(&mut under_way).await?;
            }
            let buffer = self.buffer().await?;
            buffer.write(0, &self.call[..len]).map_err(|_| SdpError::UnexpectedEnd)?;
            let sends = Rc::clone(stream);
            under_way.push_back(self.rt.spawn(async move { sends.send(buffer, len as u32).await }));
            // Its turn comes before that of the next one.
            self.rt.yield_now().await;
            at += len as u32;
            let recalls = self.recalls();
            if again || recalls {
                // After a recall the next call is carried out, or nothing would ever be.
                if !again {
                    stream.recall();
                }
                while !under_way.is_empty() {
                    moved += self.end_first(&mut under_way).await?;
                }
                (at, again) = (moved, !again);
            }
        }
        while !under_way.is_empty() {
            self.end_first(&mut under_way).await?;
        }
        Ok(())
    }

    /// Awaits the first call, and says how much it moved.
    async fn end_first(
        &mut self,
        under_way: &mut VecDeque<JoinHandle<Transfer<V>>>,
    ) -> Result<u32, SdpError> {
        let Some(first) = under_way.pop_front() else { return Ok(0) };
        // A task that was not carried out is one of a node that has ended.
        let (sent, buffer) = first.await.unwrap_or((Err(SdpError::Closed), None));
        self.free.extend(buffer);
        match sent {
            Err(SdpError::Recalled) => Ok(0),
            sent => sent,
        }
    }

    /// Reads the bytes from one position to another, and looks at each.
    pub async fn read(
        &mut self,
        stream: &SdpStream<V>,
        coding: Coding,
        from: u32,
        to: u32,
    ) -> Result<Read, SdpError> {
        let mut read = Read { bytes: from, intact: true, stall: Nanos::ZERO };
        while read.bytes < to {
            if let Some(mode) = self.modes.as_mut().and_then(Iterator::next) {
                stream.set_mode(mode);
            }
            let since = self.rt.now();
            let most = self.call.len().min((to - read.bytes) as usize);
            let len = match self.owned && self.owned_reads && most == self.call.len() {
                true => self.receive(stream).await?,
                // What is shorter than a buffer must not take bytes of what follows.
                false => stream.read(&mut self.call[..most]).await?,
            };
            if len == 0 {
                return Err(SdpError::UnexpectedEnd);
            }
            read.stall = read.stall.max(self.rt.now() - since);
            read.intact &= coding.is_at(read.bytes.into(), &self.call[..len]);
            read.bytes += len as u32;
        }
        Ok(read)
    }

    async fn receive(&mut self, stream: &SdpStream<V>) -> Result<usize, SdpError> {
        loop {
            let (recalls, buffer) = (self.recalls(), self.buffer().await?);
            let mut receives = pin!(stream.recv(buffer));
            let first = polled(receives.as_mut()).await;
            let (received, buffer) = match first {
                Poll::Ready(transfer) => transfer,
                Poll::Pending => {
                    if recalls {
                        stream.recall();
                    }
                    receives.await
                }
            };
            if received == Err(SdpError::Recalled) {
                self.free.extend(buffer);
                continue;
            }
            let len = received? as usize;
            if let Some(buffer) = buffer {
                buffer.read(0, &mut self.call[..len]).map_err(|_| SdpError::UnexpectedEnd)?;
                self.free.push(buffer);
            }
            return Ok(len);
        }
    }
}
