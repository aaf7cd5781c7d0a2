//! Worlds for the explorer: the shipped locks and the transport below them, the lock paper read to the letter, and planted bugs.
//!
//! Every world is a [`stage::Play`] on connected nodes of the simulated fabric. [`all()`] lists them.

pub mod book;
pub mod chronicle;
pub mod cluster;
pub mod historic;
mod list;
pub mod literal;
pub mod locks;
pub mod messages;
pub mod modes;
pub mod planted;
pub mod play;
pub mod stage;

pub use list::all;
