//! Readings of the paper, and bugs, that an explorer refutes: each is the shipped protocol with one decision taken otherwise.
//! `weft_protocols::dsm::Reading` says what each decision is about, and cites.

use weft_protocols::dsm::Reading;

macro_rules! readings {
    ($($(#[$about:meta])* $name:ident: $decision:ident;)*) => {
        $($(#[$about])*
        pub struct $name;

        impl Reading for $name {
            const $decision: bool = false;
        })*
    };
}

readings! {
    /// Goes on at the first notice.
    FirstNotice: COUNTS_NOTICES;
    /// Transfers, then takes access away.
    TransferFirst: PROTECTS_FIRST;
    /// Believes what the requestor had when it asked.
    RequestorKnows: DECIDES_WHEN_SERVED;
    /// Takes a minipage before the access that it came for is executed.
    Steals: GRANTS_STAY;
    /// Joins requests of any kind.
    JoinsAny: JOINS_WHAT_SERVES;
    /// Is done at the first notice.
    DoneEarly: DONE_WHEN_SET;
    /// Writes on after sharing.
    SharesAndWrites: SHARING_DOWNGRADES;
    /// Forgets the owner when it shares.
    ForgetsServer: KEEPS_SERVER;
    /// Counts threads at barriers twice.
    CountsTwice: BARRIERS_COUNT_ONCE;
    /// A pull is over when it begins.
    PullUnacknowledged: PULLS_ARE_OPEN;
    /// Pulls from a node that may not have the data yet.
    PullFromAnyone: PULLS_FROM_DONE;
    /// Frees while something is open.
    FreeEarly: FREE_WAITS;
    /// Takes minipages away from claims.
    ClaimRobbed: CLAIMS_STAY;
    /// A claim that is given up keeps what it had pinned.
    ClaimLeaks: DROPPED_CLAIMS_UNPIN;
}
