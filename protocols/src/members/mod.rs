//! Who is alive: views of incarnations, and leases.
//!
//! A *view* is a numbered list of incarnations, the boots of nodes that act together. The next one is decided by a majority of
//! the incarnations of this one, so there is one list for each number; a node that restarts is another incarnation, has no
//! voice in the views of its earlier life, and comes in through a view. What a member is granted counts while its *lease*
//! runs, and who grants anew what a member may have held waits until that member's lease has run out.
//!
//! docs/members.md has the states, the messages, the argument, and what an operator sees.
//!
//! | module | idea |
//! |---|---|
//! | `view` | lists of incarnations, and how many of them decide |
//! | `messages` | what members say, and its bytes |
//! | `synod` | one decision: Paxos on volatile memory |
//! | `lease` | until when a member may rely on what it was granted |
//! | `events` | what happens to a member, and what it wants done |
//! | `core` | one member: a state machine without I/O |
//! | `agree` | its part in deciding views |
//! | `detect` | whom it suspects |
//! | `incarnations` | of two incarnations of a node, which one is the later one |
//! | `lineages` | which views can still decide anything |
//! | `bound` | when one that accepted a list in a cold start comes into another lineage |
//! | `backlog` | what waits for room to be sent |
//! | `service` | the tasks that carry a member over a mesh |

mod agree;
mod backlog;
mod bound;
mod config;
mod core;
mod detect;
mod error;
mod events;
mod incarnations;
mod lease;
mod lineages;
mod messages;
mod service;
mod synod;
mod view;

pub use config::MembersConfig;
pub use core::Core;
pub use error::MembersError;
pub use events::{Action, Event};
pub use messages::{Envelope, Message, longest};
pub use service::{CHANNEL, Change, Hold, Members, Watch};
pub use view::{Ballot, Member, View, ViewId};

#[cfg(test)]
mod tests;
