//! The lock paper read to the letter: each reading is refuted by the explorer.
//!
//! N-CoSED (ncosed.txt, 3.2) is told in prose, and the prose leaves races open. What the project does about each is
//! in `weft_protocols::locks::ncosed`. Here is the same protocol in small, written against the mesh, with one
//! deviation at a time ([`Reading`]): so that nobody has to believe that the repairs are needed.

mod protocol;
mod reading;
mod world;

pub use protocol::{CHANNEL, Node, Seen};
pub use reading::Reading;
pub use world::AsPublished;
