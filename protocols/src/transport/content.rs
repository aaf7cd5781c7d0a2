//! What a message carries, written once: straight into the memory that the adapter sends from.

/// The content of a message: its length, and its bytes, piece by piece.
pub trait Content {
    /// How many bytes there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands on all bytes, one piece after the other.
    fn put(&self, to: &mut dyn FnMut(&[u8]));
}

impl Content for [u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn put(&self, to: &mut dyn FnMut(&[u8])) {
        to(self);
    }
}

impl Content for Vec<u8> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn put(&self, to: &mut dyn FnMut(&[u8])) {
        to(self);
    }
}

impl<const N: usize> Content for [u8; N] {
    fn len(&self) -> usize {
        N
    }

    fn put(&self, to: &mut dyn FnMut(&[u8])) {
        to(self);
    }
}
