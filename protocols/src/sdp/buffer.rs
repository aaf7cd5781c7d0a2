//! Memory that a user owns and an adapter can reach: what ZCopy moves without a copy.

use super::SdpError;
use super::service::{Sdp, Shared};
use crate::rt::{Label, LabelGuard};
use weft_verbs::{AccessFlags, MemoryRegion, PinnedMemory, Verbs, VerbsError};

/// What the peer's adapter may do with it: it reads what is sent, and writes what is received.
const ACCESS: AccessFlags =
    AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_READ).union(AccessFlags::REMOTE_WRITE);

/// An owned buffer of registered memory. A call that sends from it or receives into it takes it, and gives it back when no
/// adapter touches it any more.
pub struct SdpBuffer<V: Verbs> {
    pub(super) mr: V::Mr,
    _label: LabelGuard,
}

/// The end of a call on an owned buffer: how many bytes were moved, or why not, and the buffer. There is no buffer where an adapter
/// may still reach it: the stream has failed and its peer has not said that it is done.
pub type Transfer<V> = (Result<u32, SdpError>, Option<SdpBuffer<V>>);

impl<V: Verbs> Sdp<V> {
    /// A zeroed buffer. Making one registers memory: keep it and use it again.
    ///
    /// # Errors
    ///
    /// The device refuses.
    pub fn buffer(&self, len: u32) -> Result<SdpBuffer<V>, VerbsError> {
        self.labelled(self.shared.mesh.alloc(len as usize, ACCESS)?)
    }

    /// A buffer of memory that the caller brings: an allocation, a mapped file, shared memory. It is registered as it is, and belongs to
    /// the buffer until no adapter can reach it any more.
    ///
    /// # Errors
    ///
    /// It has more bytes than a message can tell (`TooLarge`), or the device refuses: [`weft_verbs::Caps::BROUGHT_MEMORY`].
    pub fn buffer_of(&self, memory: Box<dyn PinnedMemory>) -> Result<SdpBuffer<V>, VerbsError> {
        let (value, bound) = (memory.len() as u64, u64::from(u32::MAX));
        if value > bound {
            return Err(VerbsError::TooLarge { what: "buffer", value, bound });
        }
        self.labelled(self.shared.mesh.bring(memory, ACCESS)?)
    }

    fn labelled(&self, mr: V::Mr) -> Result<SdpBuffer<V>, VerbsError> {
        let Shared { mesh, buffers, .. } = &*self.shared;
        let number = buffers.replace(buffers.get() + 1);
        let _label = mesh.label(&mr, 0..mr.len(), Label::new("buffer").number(number));
        Ok(SdpBuffer { mr, _label })
    }
}

impl<V: Verbs> SdpBuffer<V> {
    /// Its length in bytes.
    pub fn len(&self) -> u32 {
        self.mr.len() as u32
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.mr.is_empty()
    }

    /// Copies bytes in.
    ///
    /// # Errors
    ///
    /// They do not fit.
    pub fn write(&self, at: u32, bytes: &[u8]) -> Result<(), VerbsError> {
        self.mr.write(at as usize, bytes)
    }

    /// Copies bytes out.
    ///
    /// # Errors
    ///
    /// It has not as many.
    pub fn read(&self, at: u32, into: &mut [u8]) -> Result<(), VerbsError> {
        self.mr.read(at as usize, into)
    }
}
