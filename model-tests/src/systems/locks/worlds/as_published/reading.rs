//! The readings.

use crate::explore::Expected;
use std::fmt;

macro_rules! readings {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $about:literal;)*) => {
        /// How the paper is read: with the repairs of the shipped protocol, or to the letter in one place.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reading {
            $($(#[$doc])* $name,)*
        }

        impl Reading {
            /// Every reading, the repaired one first.
            #[cfg(test)]
            pub const ALL: &[Reading] = &[$(Reading::$name),*];

            /// Its name, as worlds have it.
            pub const fn name(self) -> &'static str {
                match self { $(Reading::$name => $text),* }
            }

            /// What exploring it must find.
            pub const fn expected(self) -> Expected {
                match self {
                    Reading::Repaired => Expected::Held,
                    Reading::ResendsAtomics => Expected::ViolatedUnderFaults,
                    _ => Expected::Violated,
                }
            }

            /// What it is, in one line.
            pub const fn about(self) -> &'static str {
                match self { $(Reading::$name => $about),* }
            }
        }
    };
}

readings! {
    /// With every repair, and without faults: nothing is wrong with it.
    Repaired = "repaired", "N-CoSED on one word and five messages, with the repairs";
    /// 3.2.1, locking, step 2: "If the exclusive region of the returned value corresponds to zero, it indicates
    /// that no process is currently owning the lock." Those who share are not waited for.
    ZeroTailHolds = "zero-tail-holds", "the exclusive half was zero: granted, whatever the shared half says";
    /// The same, before the compare-and-swap was repeated: step 2 comes before step 3, which repeats it.
    ZeroTailHoldsUnswapped = "zero-tail-holds-unswapped",
        "the exclusive half of a failed compare-and-swap was zero: granted without being in the word";
    /// 3.2.1, unlocking, step 2: the last holder "resets the 64-bit value at the home-node to zero for both the
    /// exclusive and shared regions".
    ResetsBoth = "resets-both", "the last holder resets both halves, with those who share before it counted there";
    /// The same by a plain write, as nothing there says that it be atomic.
    ResetsByWrite = "resets-by-write", "the last holder writes zero over whatever the word is";
    /// 3.2.1, unlocking, step 1: the next in the queue is sent the grant. Nothing is said of those who came between
    /// and share.
    SuccessorFirst = "successor-first", "the successor is granted without its readers being waited for";
    /// 3.2.2, unlocking, step 2: when all releases have arrived, "the shared region is re-set to zero atomically by
    /// the home node", whatever it is by then.
    HomeResetsBlindly = "home-resets-blindly", "the home resets the shared half without comparing its count";
    /// The same by subtraction: atomic, and right as long as nobody moves the count elsewhere.
    HomeSubtracts = "home-subtracts", "the home takes the releases off the count by fetch-and-add";
    /// The shared half has so few bits that those who share carry into the exclusive half.
    CountCarries = "count-carries", "the shared half is one bit too narrow and carries into the exclusive half";
    /// An atomic whose completion was lost is sent again.
    ResendsAtomics = "resends-atomics", "an atomic of unknown outcome is sent again";
    /// The last holder's reset fails because a successor has come, and it takes no notice.
    IgnoresFailedReset = "ignores-failed-reset", "a failed reset is taken for a successful one";
    /// A holder that leaves asks again before everybody who was sent to its last hold has arrived.
    AsksTooSoon = "asks-too-soon", "a node asks again while readers of its last hold are on their way to it";
    /// The home spends the same release on a reset that is out and on one who waits.
    ServesWhileResetting = "serves-while-resetting",
        "the home serves a waiter while its reset may be spending the same releases";
    /// The last holder leaves those who share behind, and does not say so to the home.
    NoKick = "no-kick", "the home is not told that its failed reset is worth another try";
    /// The home forgets a kick that came while its reset was out.
    ForgetsKick = "forgets-kick", "a kick that comes while the reset is out is forgotten";
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
