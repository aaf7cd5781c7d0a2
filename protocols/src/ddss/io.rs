//! One-sided operations on a segment, done again until their outcome is known.

use super::segment::{Doubt, Open, Window};
use super::service::Ddss;
use super::{DdssError, Header, Model};
use crate::rt::BufferGuard;
use crate::transport::{self, BEFORE_MEMORY_IS_ASKED_FOR, Lost, NotExecuted, OpError};
use weft_verbs::{Nanos, RemoteSlice, SendOp, Verbs, VerbsError, WcError};

/// What one look at a segment found.
pub(super) struct Look<V: Verbs> {
    /// The header before the slots were read.
    pub before: Header,
    /// The header after that.
    pub after: Header,
    /// When the look began.
    pub began: Nanos,
    window: Window,
    slots: BufferGuard<V>,
}

impl<V: Verbs> Look<V> {
    /// Whether the slot of the header was read, while that was published.
    pub fn has(&self, header: Header) -> bool {
        self.window.offset(header.slot).is_some()
    }

    /// Copies the value of a slot out, and says what stands before it.
    pub fn value(&self, header: Header, open: &Open<V>, into: &mut [u8]) -> Result<u64, DdssError> {
        let at = self.window.offset(header.slot).unwrap_or_default();
        content(&self.slots, at, open, into)
    }
}

/// Copies a slot's value out of a block, and says which header stands before it: none but under delta.
pub(super) fn content<V: Verbs>(
    slots: &BufferGuard<V>,
    at: u32,
    open: &Open<V>,
    into: &mut [u8],
) -> Result<u64, DdssError> {
    let BufferGuard::Block { block, .. } = slots else { return Err(DdssError::Closed) };
    let prefix = open.spec.prefix();
    let mut before = [0; 8];
    if prefix == 8 {
        block.read(at, &mut before).map_err(DdssError::Verbs)?;
    }
    block.read(at + prefix, into).map_err(DdssError::Verbs)?;
    Ok(u64::from_ne_bytes(before))
}

/// Which header stands before a slot's value, under delta.
pub(super) fn before<V: Verbs>(slot: &BufferGuard<V>) -> Result<u64, DdssError> {
    let BufferGuard::Block { block, .. } = slot else { return Err(DdssError::Closed) };
    let mut before = [0; 8];
    block.read(0, &mut before).map_err(DdssError::Verbs)?;
    Ok(u64::from_ne_bytes(before))
}

/// The word that an operation has left in a block.
pub(super) fn word<V: Verbs>(guard: &BufferGuard<V>) -> Result<Header, DdssError> {
    match guard {
        BufferGuard::Block { block, .. } => block.word().map(Header::from_word).map_err(DdssError::Verbs),
        _ => Err(DdssError::Closed),
    }
}

impl<V: Verbs> Ddss<V> {
    /// Somebody waits for what this node has no memory for: it is tried again.
    pub(super) async fn until_there_may_be_memory(&self) {
        self.0.rt.sleep(BEFORE_MEMORY_IS_ASKED_FOR).await;
    }

    /// A block for a word.
    pub(super) fn word_block(&self) -> Result<BufferGuard<V>, DdssError> {
        let block = self.0.words.alloc().map_err(DdssError::Verbs)?;
        Ok(BufferGuard::Block { block, len: 8 })
    }

    /// Posts one-sided operations to a segment, unless it has been released.
    pub(super) async fn post<const N: usize>(
        &self,
        open: &Open<V>,
        list: [(SendOp<'static, V>, BufferGuard<V>); N],
    ) -> Result<Result<[BufferGuard<V>; N], OpError>, DdssError> {
        self.take_part(open).await?;
        // From here to the post nothing is waited for: what is posted is for the incarnation that has the segment.
        self.check(open)?;
        let home = open.home.rank;
        let posting = self.posting(home);
        let outcome = self.unless_out(self.0.mesh.post_list(home, list)).await?;
        drop(posting);
        if let Err(OpError::NotExecuted(why @ (NotExecuted::PeerGone(_) | NotExecuted::PeerReset(_)))) =
            outcome
        {
            return Err(self.who_is_out(self.home_of(open), why).await);
        }
        if outcome.as_ref().is_err_and(is_refusal) {
            self.join(open).await?;
        }
        Ok(outcome)
    }

    /// Reads header, slots and header in one list. The adapter executes it in order, so that what is between two equal headers
    /// was read while that header was published.
    pub(super) async fn look(&self, open: &Open<V>) -> Result<Look<V>, DdssError> {
        let window = open.window(open.last.get().slot);
        loop {
            let began = self.0.rt.now();
            let header = SendOp::Read { from: open.header() };
            let list = [
                (header, self.word_block()?),
                (SendOp::Read { from: window.from }, open.block(window.from.len)?),
                (header, self.word_block()?),
            ];
            // A read that failed changed nothing: it is done again.
            match self.post(open, list).await? {
                Ok([before, slots, after]) => {
                    let (before, after) = (word(&before)?, word(&after)?);
                    open.saw(after);
                    return Ok(Look { before, after, began, window, slots });
                }
                Err(OpError::NotExecuted(why)) => again(why)?,
                Err(OpError::Unknown(_)) => {}
            }
        }
    }

    /// Reads one slot and, behind it, the header.
    pub(super) async fn slot_and_header(
        &self,
        open: &Open<V>,
        slot: u16,
    ) -> Result<(BufferGuard<V>, Header), DdssError> {
        loop {
            let from = open.slot(slot.into());
            let list = [
                (SendOp::Read { from }, open.block(from.len)?),
                (SendOp::Read { from: open.header() }, self.word_block()?),
            ];
            match self.post(open, list).await? {
                Ok([slot, header]) => return Ok((slot, word(&header)?)),
                Err(OpError::NotExecuted(why)) => again(why)?,
                Err(OpError::Unknown(_)) => {}
            }
        }
    }

    /// Reads the header alone.
    pub(super) async fn header(&self, open: &Open<V>) -> Result<Header, DdssError> {
        loop {
            let list = [(SendOp::Read { from: open.header() }, self.word_block()?)];
            match self.post(open, list).await? {
                Ok([header]) => {
                    let header = word(&header)?;
                    open.saw(header);
                    return Ok(header);
                }
                Err(OpError::NotExecuted(why)) => again(why)?,
                Err(OpError::Unknown(_)) => {}
            }
        }
    }

    /// A completion said of what changes something that it may have been executed.
    pub(super) fn counts_unknown(&self) {
        self.0.stats.borrow_mut().unknown_outcomes += 1;
    }

    /// The header once nothing that was sent before can change it any more. Waits for memory to read it: a call that ended for want of that
    /// would say that nothing was published.
    pub(super) async fn resolved(&self, open: &Open<V>) -> Result<Header, DdssError> {
        loop {
            match self.unless_out(self.0.mesh.resolve_outcomes(open.home.rank)).await? {
                Ok(()) => match self.header(open).await {
                    Err(why) if lacks_memory(&why) => self.until_there_may_be_memory().await,
                    read => return read,
                },
                Err(why @ NotExecuted::PeerGone(_)) => {
                    return Err(self.who_is_out(self.home_of(open), why).await);
                }
                Err(why) => again(why)?,
            }
        }
    }

    /// Finds out what became of what a call had posted that was dropped in the middle, and gives back what it had: the lock, and
    /// the turn, also that of who had given the lock back amid the line. To be called in the task's turn among those of its node.
    pub(super) async fn settle(&self, open: &Open<V>) -> Result<(), DdssError> {
        if let Some((doubt, now)) = self.clear_doubt(open).await? {
            if now.is_held_by(open.me) {
                self.unlock(open).await?;
            } else if doubt == (Doubt::Gives { marked: true }) && now.is_marked() {
                open.entered.set(true);
            }
        }
        if open.entered.get() { self.leave(open).await } else { Ok(()) }
    }

    /// Finds out what became of what a call had posted that was dropped in the middle: what it was, and the header since then.
    pub(super) async fn clear_doubt(&self, open: &Open<V>) -> Result<Option<(Doubt, Header)>, DdssError> {
        let Some(doubt) = open.doubt.get() else { return Ok(None) };
        let now = self.resolved(open).await?;
        if let Doubt::Put { version, slot } = doubt
            && (now.slot == slot || now.version > version)
        {
            open.published(slot);
        }
        open.doubt.set(None);
        Ok(Some((doubt, now)))
    }

    /// Reads the first slot without any coordination: null.
    pub(super) async fn read_first(&self, open: &Open<V>, into: &mut [u8]) -> Result<(), DdssError> {
        debug_assert_eq!(open.spec.model, Model::Null);
        loop {
            let from = open.slot(0);
            match self.post(open, [(SendOp::Read { from }, open.block(from.len)?)]).await? {
                Ok([slot]) => return content(&slot, 0, open, into).map(drop),
                Err(OpError::NotExecuted(why)) => again(why)?,
                Err(OpError::Unknown(_)) => {}
            }
        }
    }

    /// Writes the first slot without any coordination: null. A write of unknown outcome may be executed late. It is done again
    /// once that cannot be: then the late one, if it came, wrote the same bytes before.
    pub(super) async fn write_first(&self, open: &Open<V>, value: &[u8]) -> Result<(), DdssError> {
        let to = open.slot(0);
        loop {
            let guard = filled(open.block(to.len)?, 0, value)?;
            match self.post(open, [(SendOp::Write { to, imm: None }, guard)]).await? {
                Ok(_) => return Ok(()),
                Err(OpError::NotExecuted(why)) => again(why)?,
                Err(OpError::Unknown(_)) => {
                    self.counts_unknown();
                    self.resolved(open).await?;
                }
            }
        }
    }
}

/// A block with bytes copied in.
pub(super) fn filled<V: Verbs>(
    guard: BufferGuard<V>,
    at: u32,
    bytes: &[u8],
) -> Result<BufferGuard<V>, DdssError> {
    match &guard {
        BufferGuard::Block { block, .. } => block.write(at, bytes).map_err(DdssError::Verbs)?,
        _ => return Err(DdssError::Verbs(VerbsError::DeviceGone)),
    }
    Ok(guard)
}

/// Whether the home's adapter may have refused the key: it has been revoked, then.
fn is_refusal(error: &OpError) -> bool {
    matches!(
        error,
        OpError::NotExecuted(NotExecuted::Failed(WcError::RemAccess) | NotExecuted::AtPeer(_))
            | OpError::Unknown(Lost::Failed(WcError::RemAccess))
    )
}

/// A swap of the header.
pub(super) fn swap<V: Verbs>(at: RemoteSlice, from: Header, to: Header) -> SendOp<'static, V> {
    SendOp::CompareSwap { at, compare: from.word(), swap: to.word() }
}

/// Whether a call failed for want of memory, which may be there later: what nobody but this node can do is tried again.
pub(super) fn lacks_memory(error: &DdssError) -> bool {
    match error {
        DdssError::Verbs(why) => transport::lacks_memory(*why),
        DdssError::NotExecuted(why) => why.lacks_memory(),
        _ => false,
    }
}

/// What was not executed because a connection broke is tried again, on the next one.
pub(super) fn again(why: NotExecuted) -> Result<(), DdssError> {
    match why {
        NotExecuted::Failed(_) => Ok(()),
        NotExecuted::Closed => Err(DdssError::Closed),
        NotExecuted::PeerGone(node) => Err(DdssError::Gone(node)),
        other => Err(DdssError::NotExecuted(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_adapter_refuses_that_is_gone_is_tried_again_and_what_cannot_be_is_not() {
        let refused = |why| lacks_memory(&DdssError::NotExecuted(NotExecuted::Refused(why)));
        let [short, gone] = [VerbsError::Os { call: "ibv_reg_mr", errno: 12 }, VerbsError::DeviceGone];
        assert!(refused(short) && refused(gone));
        // A node whose first adapter is gone has no blocks any more.
        assert!(lacks_memory(&DdssError::Verbs(short)) && !lacks_memory(&DdssError::Verbs(gone)));
        assert!(!lacks_memory(&DdssError::NotExecuted(NotExecuted::Closed)));
    }
}
