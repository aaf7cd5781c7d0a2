//! What an expulsion stands on.

/// How long grounds are, in bytes.
pub(super) const GROUNDS_LEN: usize = 20;

/// What an expulsion stands on, in the bytes of the membership that decided it: one who is refused because it was expelled is told
/// that as well, and can judge it. The default says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grounds(pub [u8; GROUNDS_LEN]);
