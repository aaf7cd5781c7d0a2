//! Replaying set-ups and memoising programs, for the explorer: the handles' calls are recorded here, and answered from
//! the record.
//!
//! An explorer runs the same programs from the same beginning, tens of thousands of times a second. Programs cannot be
//! copied, but they are deterministic, and the fabric under them can be copied. So
//!
//! - a *set-up* (devices opened, connections made) is carried out once; from then on the fabric's state is copied, and
//!   the set-up's code is answered from its *replay log*: [`Root`];
//! - what a *program* was seen to do is kept as a *call tree*; as long as it does what it did before, its calls are made
//!   for it, and it does not run at all: [`ProgramCache`].
//!
//! The adapter model knows nothing of this. There is one seam, `memo/calls.rs`: every call of a handle is passed to the world
//! as a function, and without a recorder that is a comparison and the call.
//!
//! The seam is a function on the world, and not a backend over another backend, because a memoised call is made again
//! *on another state of the fabric, without its program*. So a record has to name objects by what they are in a state
//! (their keys) and has to be able to destroy them; the contract names objects by handles alone, and a handle's drop
//! destroys its object, so a recorder that held handles of another backend could do neither.

mod cache;
pub(crate) mod calls;
mod effects;
mod root;
mod tree;

pub use cache::{ProgramCache, ProgramCacheStats, SavedExecution};
pub(crate) use calls::Recorder;
pub use effects::ObserverEffects;
pub use root::Root;
