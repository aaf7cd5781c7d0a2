//! Whole clusters of the shipped code on turmoil's network: hosts crash, bounce and hang, links are cut one way and both
//! ways, strangers call. Each situation ends in a stated outcome within a stated time, nothing is left over, and what an
//! operator reads is pinned word by word.
//!
//! A situation runs with a few seeds; `WEFT_CONTROL_SEEDS=1000 cargo test -p weft-control` runs each with a thousand.

mod calls;
mod cluster;
mod coordinator;
mod daemon;
mod door;
mod links;
mod log;
mod members;
mod network;
mod refused;
mod scale;
mod strangers;
