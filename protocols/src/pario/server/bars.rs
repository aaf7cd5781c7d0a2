//! Handles of files that are gone: nothing makes an object of them again.
//!
//! A file ends when nobody has it open, and a client that began anew has nothing open. Another server may not have heard of that yet, and
//! carry out what the client's last life had asked. So a server that removed an object refuses whatever is written to it later, and
//! reads: a guest may not know yet that it was forgotten, and an object that is not there reads as zeros. It
//! forgets that when it begins anew itself: nothing that an earlier life of it was asked is carried out then.
//!
//! Handles are given out in their order and mostly end in about that, so ranges of them are few: at most one for each file that
//! lives among those that have ended, or did when their home began its life. A server is asked to remove an object of those files only that it
//! has a part of; it is told with it which others before that are gone.

use super::super::Handle;
use crate::number_set::NumberSet;

/// Handles of files that are gone.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Bars(NumberSet);

impl Bars {
    /// Whether a file is gone.
    pub(super) fn has(&self, Handle(handle): Handle) -> bool {
        self.0.contains(handle)
    }

    /// A file is gone.
    pub(super) fn add(&mut self, Handle(handle): Handle) {
        self.0.insert(handle);
    }

    /// A file is gone, and all others are from a handle before it on.
    pub(super) fn add_from(&mut self, Handle(first): Handle, Handle(handle): Handle) {
        self.0.insert_all(first.min(handle)..=handle);
    }

    /// From which handle on all files up to this one are gone.
    pub(super) fn first(&self, Handle(handle): Handle) -> Handle {
        Handle(self.0.first(handle))
    }

    /// How many ranges there are.
    #[cfg(test)]
    pub(super) fn ranges(&self) -> usize {
        self.0.ranges()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_file_that_is_gone_stays_gone_and_no_other_is(handles in prop::collection::vec(0..40_u64, 0..60)) {
            let (mut bars, mut gone) = (Bars::default(), BTreeSet::new());
            for handle in handles {
                bars.add(Handle(handle));
                gone.insert(handle);
                prop_assert!((0..42).all(|n| bars.has(Handle(n)) == gone.contains(&n)));
            }
            let begins = gone.iter().filter(|n| n.checked_sub(1).is_none_or(|before| !gone.contains(&before)));
            prop_assert_eq!(bars.ranges(), begins.count(), "ranges that touch are one");
        }
    }
}
